import { counterseal, stepKey } from "./index.js";

const { API: api = "http://127.0.0.1:8080", SERVICE = "" } = process.env;
const binding = { agent_id: "support-bot", actor_id: "user_17", customer_id: "cus_DemoAda00001", tools: ["issue_refund"] };
const opened = await counterseal(api, SERVICE).POST("/v1/runs", { body: binding });
if (opened.error) throw new Error(opened.error.message);
const idempotency_key = await stepKey("conversation-42", "refund of ord_DemoFree0001");
const refund = { order_id: "ord_DemoFree0001", amount_cents: 4999, currency: "USD", reason_code: "damaged", idempotency_key };
const call = await counterseal(api, opened.data.run_token).POST("/v1/tool-calls", { body: { tool: "issue_refund", arguments: refund } });
const reply = call.data ?? call.error; // a refusal is an answer: it says what to do next
console.log(reply.status, reply.action, reply.message);
