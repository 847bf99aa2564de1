// Serves stripe-stateful-mock on a free port of 127.0.0.1 and counts the refunds that it is asked for, by their key.
// Usage: node stateful_mock.js FOLDER-WITH-node_modules READY-FILE. Ends with its standard input.
const fs = require("fs");
const http = require("http");
const { createRequire } = require("module");

const [, , folder, ready] = process.argv;
const app = createRequire(`${folder}/`)("stripe-stateful-mock").createExpressApp();
const sends = {};

const server = http.createServer((request, response) => {
  if (request.url === "/_sends") {
    response.end(JSON.stringify(sends));
    return;
  }
  if (request.method === "POST" && request.url === "/v1/refunds") {
    const key = request.headers["idempotency-key"];
    sends[key] = (sends[key] ?? 0) + 1;
  }
  app(request, response);
});
server.listen(0, "127.0.0.1", () => {
  fs.writeFileSync(`${ready}.new`, JSON.stringify({ gateway: `http://127.0.0.1:${server.address().port}` }));
  fs.renameSync(`${ready}.new`, ready);
});
process.stdin.resume().on("end", () => process.exit());
