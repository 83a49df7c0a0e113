window.onload = function() {
  window.ui = SwaggerUIBundle({
    "dom_id": "#swagger-ui",
    "url": "/openapi.json",
    "deepLinking": true,
    "layout": "StandaloneLayout",
    presets: [
      SwaggerUIBundle.presets.apis,
      SwaggerUIStandalonePreset
    ],
    plugins: [
      SwaggerUIBundle.plugins.DownloadUrl
    ],
  });
};
