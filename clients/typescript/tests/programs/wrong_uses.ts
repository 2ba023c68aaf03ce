// What must not compile, in a partner's strict project.
import { Amount, type Charge, Client, type Transfer } from "ousel-client";

declare const client: Client;
declare const transfer: Transfer;
declare const charge: Charge;

// @ts-expect-error: a number may have been rounded
await client.transfers.send({ to: "@ada", amount: 0.1 });
// @ts-expect-error: a recipient is required
await client.transfers.send({ amount: "1.00" });
// @ts-expect-error: this field does not exist
await client.transfers.send({ to: "@ada", amount: "1.00", idempotency_kee: "key" });
// @ts-expect-error: an amount is not a number
const rounded: number = transfer.amount;
// @ts-expect-error: there is no such status
const isPending = charge.status === "pending";
// @ts-expect-error: the payer is not known while the charge is open
const payer: string = charge.paid_by.username;
// @ts-expect-error: a charge has no such field
const unknown: unknown = charge.colour;

export const exact: Amount = transfer.amount.plus(charge.amount);
export const unused = [rounded, isPending, payer, unknown];
