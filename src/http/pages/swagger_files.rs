/// The files of the page, and their types. The first is the page itself.
const FILES: [(&str, &str); 7] = [
    ("index.html", "text/html; charset=utf-8"),
    ("index.css", "text/css"),
    ("swagger-ui.css", "text/css"),
    ("swagger-ui-bundle.js", "text/javascript"),
    ("swagger-ui-standalone-preset.js", "text/javascript"),
    ("favicon-16x16.png", "image/png"),
    ("favicon-32x32.png", "image/png"),
];
