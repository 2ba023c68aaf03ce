// What a program may rely on, as a generator of types understood it; wrong uses must not compile.
import type { components, paths } from "./types";

type Charge = components["schemas"]["ChargeRecord"];
type Transfer = paths["/transfers"]["post"]["responses"][201]["content"]["application/json"];
type Asked = paths["/transfers"]["post"]["requestBody"]["content"]["application/json"];
type Filters = NonNullable<paths["/charges"]["get"]["parameters"]["query"]>;

const isFinal: Record<Charge["status"], boolean> = {
  created: false,
  paid: true,
  canceled: true,
  expired: true,
};
const whole: Asked = { to: "@ada", amount: 2.5 };
const filters: Filters = { status: "paid", limit: 100 };

export function told(charge: Charge, transfer: Transfer): string {
  const payer = charge.paid_by === null ? "nobody" : charge.paid_by.username;
  const amount: number = transfer.amount;
  return `${payer} ${amount.toFixed(2)} ${charge.currency} ${isFinal[charge.status]}`;
}

// @ts-expect-error: an amount is a number
export const asText: Asked = { ...whole, amount: "2.5" };
// @ts-expect-error: a recipient is required
export const toNobody: Asked = { amount: 2.5 };
// @ts-expect-error: there is no such status
export const unknown: Filters = { ...filters, status: "pending" };
