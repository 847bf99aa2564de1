/** What the compiler has to refuse. An unused `@ts-expect-error` is an error itself. */

import { counterseal, type Reply } from "./index.js";

export async function refused(): Promise<void> {
  const client = counterseal("http://127.0.0.1:8080", "");
  // @ts-expect-error: a run needs its customer
  await client.POST("/v1/runs", { body: { agent_id: "a", actor_id: "b", tools: ["issue_refund"] } });
  // @ts-expect-error: there is no such route
  await client.POST("/v1/refunds", {});
  // @ts-expect-error: and this one is not for reading
  await client.GET("/v1/runs", {});
  const { data } = await client.GET("/v1/tool-calls/{request_id}", { params: { path: { request_id: "act_" }, query: { wait_seconds: 20 } } });
  // @ts-expect-error: statuses are a closed list
  if (data?.status === "done") return;
  const reply: Reply | undefined = data;
  // @ts-expect-error: a field that is none
  reply?.refund;
}
