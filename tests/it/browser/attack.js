"use strict";
// What a page can try against the server at `target`. The report says what the page got to see of each answer.
const PATIENCE_MS = 2000;
const READS = ["/", "/v1/leases", "/v1/sessions", "/v1/pools", "/v1/nodes", "/v1/info", "/v1/events", "/metrics", "/openapi.json"];
const FORMS = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const limit = (promise) => Promise.race([promise, pause(PATIENCE_MS).then(() => { throw new Error("no answer in time"); })]);

// Reads to the end. A stream without an end counts as far as it came.
async function text(answer) {
  const [reader, decoder] = [answer.body?.getReader(), new TextDecoder()];
  let read = "";
  try {
    for (let part; reader && !(part = await limit(reader.read())).done;) read += decoder.decode(part.value, { stream: true });
  } catch (error) {
    read += ` (${error})`;
  }
  return read;
}

async function call(url, options) {
  const stop = new AbortController();
  try {
    const answer = await limit(fetch(url, { credentials: "include", signal: stop.signal, ...options }));
    return { type: answer.type, status: answer.status, text: await text(answer) };
  } catch (error) {
    return { error: String(error) };
  } finally {
    stop.abort();
  }
}

// An element that takes what is at `url`.
const element = (name, field, url, more) => limit(new Promise((done, refuse) => {
  const made = Object.assign(document.createElement(name), more);
  made.onload = () => done(made);
  made.onerror = () => refuse(new Error("not loaded"));
  made[field] = url;
  document.body.append(made);
}));
const refusal = (error) => ({ error: String(error) });
const image = (url) => element("img", "src", url, {}).then(() => ({ loaded: true }), refusal);
const style = (url) => element("link", "href", url, { rel: "stylesheet" })
  .then((made) => ({ text: [...made.sheet.cssRules].map((rule) => rule.cssText).join("") })).catch(refusal);

// A script. What is no JavaScript fails as soon as it is run, and the page is told of it.
async function script(url) {
  let loaded = false;
  const notice = () => { loaded = true; };
  addEventListener("error", notice);
  await element("script", "src", url, {}).catch(refusal);
  removeEventListener("error", notice);
  return { loaded };
}

// A frame that `fill` navigates: what the page can read in it. Only its first page is certain to be readable.
async function frame(fill) {
  const made = document.createElement("iframe");
  made.name = `frame-${document.querySelectorAll("iframe").length}`;
  document.body.append(made);
  fill(made);
  for (const end = performance.now() + PATIENCE_MS; performance.now() < end && made.contentDocument?.URL === "about:blank";) await pause(20);
  await pause(100);
  try {
    return { text: made.contentDocument?.documentElement?.textContent ?? "" };
  } catch (error) {
    return { error: String(error) };
  }
}

// A form in a frame. Its one field makes a body in plain text that is JSON as well.
const form = (url, enctype, order) => frame((shown) => {
  const made = Object.assign(document.createElement("form"), { action: url, method: "post", enctype, target: shown.name });
  const [name, value] = [JSON.stringify({ ...order, reason: "=" }).split("=")[0], "\"}"];
  made.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  document.body.append(made);
  made.submit();
});

// A page of no origin, which posts this.
const posting = (url, body) => frame((shown) => {
  const options = JSON.stringify({ method: "POST", mode: "no-cors", credentials: "include", keepalive: true, body });
  shown.sandbox = "allow-scripts";
  shown.srcdoc = `<script>fetch(${JSON.stringify(url)}, ${options})</script>`;
});

const stream = (opened) => new Promise((done) => {
  const end = (told) => { opened.close(); done(told); };
  opened.onopen = () => end({ loaded: true });
  opened.onerror = () => end({ error: "refused" });
  pause(PATIENCE_MS).then(() => end({ error: "no answer in time" }));
});

async function attack(target, bait) {
  const at = (path) => new URL(target + path, location.href).href;
  const json = { "content-type": "application/json" };
  const token = { authorization: `Bearer ${bait.guess}` };
  const proof = { key: bait.held, lease_id: bait.lease_id };
  const orders = {
    "/v1/admin/revoke": { key: bait.held, immediately: true, reason: "a page" },
    "/v1/admin/pin": { key: bait.held, by: "a page" },
    "/v1/acquire": { key: bait.held, owner: bait.owner, ttl_ms: 60000, reclaim: true },
    "/v1/acquire-any": { keys: [bait.free], owner: bait.owner, ttl_ms: 60000 },
    "/v1/release": proof,
    "/v1/transfer": { ...proof, to: "a page" },
    "/v1/sessions": { owner: bait.owner, ttl_ms: 60000 },
    "/sign-out": {},
  };
  const report = {};
  const attempt = async (name, act) => { report[name] = await act; };
  for (const path of READS) {
    for (const mode of ["cors", "no-cors"]) await attempt(`GET ${path}, ${mode}`, call(at(path), { mode }));
    await attempt(`GET ${path} by a redirect`, call(`/to?${at(path)}`, { mode: "no-cors" }));
  }
  await attempt("GET with a token", call(at("/v1/leases"), { headers: token }));
  for (const [path, order] of Object.entries(orders)) {
    const body = JSON.stringify(order);
    const post = (more) => call(at(path), { method: "POST", body, ...more });
    await attempt(`POST ${path} as JSON`, post({ headers: json }));
    await attempt(`POST ${path} with a token`, post({ headers: { ...json, ...token } }));
    await attempt(`POST ${path} as text`, post({ mode: "no-cors" }));
    await attempt(`POST ${path} as text that may be read`, post({}));
    await attempt(`POST ${path} as a form`, post({ mode: "no-cors", headers: { "content-type": FORMS[1] } }));
    await attempt(`POST ${path} without a type`, post({ mode: "no-cors", body: new Blob([body]) }));
    await attempt(`POST ${path} by a redirect`, call(`/to?${at(path)}`, { method: "POST", mode: "no-cors", body }));
    await attempt(`POST ${path} by a beacon`, { sent: navigator.sendBeacon(at(path), body) });
  }
  await attempt("DELETE the session", call(at(`/v1/sessions/${bait.session}`), { method: "DELETE" }));
  for (const enctype of FORMS) {
    await attempt(`a form of ${enctype}`, form(at("/v1/admin/revoke"), enctype, orders["/v1/admin/revoke"]));
  }
  await attempt("a page of no origin", posting(at("/v1/admin/revoke"), JSON.stringify(orders["/v1/admin/revoke"])));
  await attempt("a frame", frame((shown) => { shown.src = at("/"); }));
  await attempt("a frame of leases", frame((shown) => { shown.src = at("/v1/leases"); }));
  for (const path of ["/v1/leases", "/metrics"]) {
    await attempt(`an image of ${path}`, image(at(path)));
    await attempt(`a script of ${path}`, script(at(path)));
    await attempt(`a style of ${path}`, style(at(path)));
  }
  await attempt("an event stream", stream(new EventSource(at("/v1/events?after=0"), { withCredentials: true })));
  await attempt("a WebSocket", stream(new WebSocket(at("/v1/events").replace("http", "ws"))));
  report["the cookies"] = { text: document.cookie };
  const measured = performance.getEntriesByType("resource").filter((entry) => target && entry.name.startsWith(target));
  const figures = ["responseStatus", "transferSize", "encodedBodySize", "decodedBodySize"];
  report["what the browser measured"] = { seen: measured.flatMap((entry) => figures.map((name) => entry[name])).filter((figure) => figure > 0) };
  return report;
}
