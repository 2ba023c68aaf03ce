/** JSON without floats: numbers keep their digits, and amounts are written exactly. */

import { Amount } from "./amounts.ts";

/** A number as it was written in JSON. JSON.parse alone would round it. */
export class JsonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g;

/** Returns the value of a JSON text, with each number as a JsonNumber, or throws a SyntaxError. */
export function parseJson(text: string): unknown {
  JSON.parse(text); // throws if this is not valid JSON, on which the next step relies
  const marked = text.replace(STRING_OR_NUMBER, (token) =>
    token.startsWith('"') ? token : `{"":"${token}"}`,
  );
  return JSON.parse(marked, (_, value) => (isMarked(value) ? new JsonNumber(value[""]) : value));
}

/** Returns the fields that are not undefined or null as a JSON object. */
export function encodeObject(
  fields: Readonly<Record<string, string | number | Amount | null | undefined>>,
): string {
  const members = Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${JSON.stringify(name)}:${literal(value)}`);
  return `{${members.join(",")}}`;
}

function literal(value: unknown): string {
  return value instanceof Amount ? value.toString() : JSON.stringify(value);
}

function isMarked(value: unknown): value is { "": string } {
  return (
    typeof value === "object" &&
    value !== null &&
    Object.keys(value).length === 1 &&
    typeof (value as { ""?: unknown })[""] === "string"
  );
}
