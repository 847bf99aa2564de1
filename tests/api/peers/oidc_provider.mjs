// Serves oidc-provider on a free port of 127.0.0.1, with the forms that it brings along for development.
// Usage: node oidc_provider.mjs FOLDER-WITH-node_modules READY-FILE ACCOUNTS-FILE BASE-URL-OF-THE-SERVICE.
// ACCOUNTS-FILE: {"what is typed as the login": {claims}}, read at every use. Ends with its standard input.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , folder, ready, accounts, service] = process.argv;
const entry = path.join(folder, "node_modules", "oidc-provider", "lib", "index.js");
const { default: Provider } = await import(pathToFileURL(entry).href);

const server = http.createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const registered = {
    redirect_uris: [`${service}/signin/oidc/callback`],
    post_logout_redirect_uris: [`${service}/signin`],
  };
  const provider = new Provider(issuer, {
    clients: [
      { client_id: "counterseal", client_secret: "secret of the tests: 100%", ...registered },
      { client_id: "counterseal-public", token_endpoint_auth_method: "none", ...registered },
    ],
    claims: { openid: ["sub"], profile: ["name", "preferred_username"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: ["openid", "profile", "email", "groups"],
    pkce: { required: () => true },
    cookies: { keys: ["a key of the tests"] },
    findAccount: (context, id) => {
      const claims = JSON.parse(fs.readFileSync(accounts))[id];
      return claims && { accountId: id, claims: () => claims };
    },
  });
  server.on("request", provider.callback());
  fs.writeFileSync(`${ready}.new`, JSON.stringify({ issuer }));
  fs.renameSync(`${ready}.new`, ready);
});
process.stdin.resume().on("end", () => process.exit());
