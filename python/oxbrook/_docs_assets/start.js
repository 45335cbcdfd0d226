// Shows the document that the page names. No validator: the page asks nothing of any other host.
window.addEventListener("load", () => {
  const place = document.getElementById("document");
  SwaggerUIBundle({
    url: new URL(place.dataset.url, window.location.href).href,
    dom_id: "#document",
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
  });
});
