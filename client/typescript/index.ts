/** Counterseal's HTTP API with types. `schema.d.ts` is made from the OpenAPI document; this adds what it cannot say. */

import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./schema.js";

export type { components, paths };
export type Reply = components["schemas"]["Reply"];

/** A client of the service at `api`. `token`: a service's to open runs, a run's to call tools. */
export function counterseal(api: string, token: string): Client<paths> {
  return createClient<paths>({ baseUrl: api, headers: { Authorization: `Bearer ${token}` }, redirect: "error" });
}

/**
 * The idempotency key of a step: the same for every repeat, whatever run or process does it.
 *
 * @param scope what steps belong to and what outlives processes, such as the id of the conversation; unique in the tenant
 * @param step one act in it, such as the id of the model's tool call; never the number of an attempt
 * @returns the first 32 hexadecimal digits of SHA-256 over `counterseal-step-1`, NUL, scope, NUL, step (UTF-8), as
 *   `counterseal_client.step_key` in Python
 */
export async function stepKey(scope: string, step: string): Promise<string> {
  for (const part of [scope, step]) {
    if (part === "" || part.includes("\0") || !part.isWellFormed()) {
      throw new TypeError("scope and step are Unicode text, not empty and without NUL");
    }
  }
  const text = new TextEncoder().encode(["counterseal-step-1", scope, step].join("\0"));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
  return Array.from(digest.subarray(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
