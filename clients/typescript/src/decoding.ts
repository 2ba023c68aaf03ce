/** Decoding answers into records. Unknown fields are ignored, because the API may gain fields. */

import { Amount } from "./amounts.ts";
import { JsonNumber, parseJson } from "./json.ts";

/** The answer does not have the documented form. */
export class Undecodable extends Error {}

/** Converts a JSON value; `name` names the field for the error message. */
export type Decode<Value> = (value: unknown, name: string) => Value;
export type Decoded<D> = D extends Decode<infer Value> ? Value : never;

export const text: Decode<string> = (value, name) =>
  typeof value === "string" ? value : fail(name, "a string");

export const flag: Decode<boolean> = (value, name) =>
  typeof value === "boolean" ? value : fail(name, "a boolean");

export const integer: Decode<number> = (value, name) => {
  const number = value instanceof JsonNumber ? Number(value.text) : NaN;
  return Number.isSafeInteger(number) ? number : fail(name, "an integer");
};

export const amount: Decode<Amount> = (value, name) => {
  if (!(value instanceof JsonNumber)) return fail(name, "a number");
  try {
    return Amount.of(value.text);
  } catch {
    return fail(name, "an amount");
  }
};

/** A time stays a string, because a Date would lose the microseconds. */
export const time: Decode<string> = (value, name) =>
  typeof value === "string" && !Number.isNaN(Date.parse(value)) ? value : fail(name, "a time");

/** One of these values, or one that was added after this client was released. */
export function word<Word extends string>(): Decode<Word> {
  return text as Decode<Word>;
}

export function nullable<Value>(decode: Decode<Value>): Decode<Value | null> {
  return (value, name) => (value === null ? null : decode(value, name));
}

export function list<Value>(decode: Decode<Value>): Decode<readonly Value[]> {
  return (value, name) =>
    Array.isArray(value) ? value.map((each) => decode(each, name)) : fail(name, "an array");
}

type Fields = Readonly<Record<string, Decode<unknown>>>;

export function record<F extends Fields>(
  fields: F,
): Decode<{ readonly [Name in keyof F]: Decoded<F[Name]> }> {
  return (value, name) => {
    const object = isObject(value) ? value : fail(name, "an object");
    const entries = Object.entries(fields).map(([key, decode]) => [key, decode(object[key], key)]);
    return Object.fromEntries(entries);
  };
}

/** Returns the record in a body, or throws Undecodable. */
export function decodeBody<Value>(decode: Decode<Value>, body: string): Value {
  try {
    return decode(parseJson(body), "the body");
  } catch (error) {
    // A text that is nested too deep exhausts the stack, which is a RangeError.
    const isJson = !(error instanceof SyntaxError || error instanceof RangeError);
    throw isJson ? error : new Undecodable("the body is not JSON");
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fail(name: string, kind: string): never {
  throw new Undecodable(`${name} is not ${kind}`);
}
