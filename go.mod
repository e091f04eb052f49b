module headcount

go 1.26
