// Tables as CSV, charts as SVG and PNG.

// csv is a table as RFC 4180 has it.
export function csv({ columns, rows }) {
  const cell = (v) => {
    const text = v == null ? "" : String(v);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

// tsv is a table as spreadsheets paste it.
export function tsv({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map((v) => (v == null ? "" : String(v).replace(/[\t\n\r]/g, " "))).join("\t")).join("\n");
}

export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const kept = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "opacity", "font-family", "font-size", "font-weight", "font-variant-numeric", "text-anchor"];

// alone is a chart that needs no style sheet: what the page's styles give is written into it.
function alone(svg) {
  const copy = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((el, i) => {
    const style = getComputedStyle(el);
    for (const name of kept) {
      const value = style.getPropertyValue(name);
      if (value && !value.startsWith("url(")) to[i].setAttribute(name, value);
    }
  });
  for (const style of copy.querySelectorAll("style")) style.remove();
  copy.removeAttribute("style");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(svg.closest(".card")).backgroundColor);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

export function saveSVG(name, svg) {
  download(name, new Blob([alone(svg)], { type: "image/svg+xml" }));
}

// savePNG draws at twice the size, for slides and dense screens.
export async function savePNG(name, svg) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([alone(svg)], { type: "image/svg+xml" }));
  image.src = url;
  await image.decode();
  const { width, height } = svg.getBoundingClientRect();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  download(name, await new Promise((done) => canvas.toBlob(done, "image/png")));
}
