// The page's first sight needs its text and its style alone: the library of the charts and
// all else run once that is painted. A tab that is not shown paints nothing, and goes on.

const painted = new Promise((done) => {
  requestAnimationFrame(() => setTimeout(done));
  setTimeout(done, 100);
});

const script = (path) => new Promise((done, failed) => {
  const src = new URL(path, import.meta.url);
  const el = Object.assign(document.createElement("script"), { src, async: false, onload: done, onerror: failed });
  document.head.append(el);
});

await painted;
await Promise.all([script("./vendor/d3.min.js"), script("./vendor/plot.umd.min.js")]);
await import("./app.js");
