/** Turning error answers into errors. */

import { isObject } from "./decoding.ts";
import * as errors from "./errors.ts";
import { ApiError, BadRequest, type Problem, ServerError } from "./errors.ts";
import type { Answer } from "./exchange.ts";
import { parseJson } from "./json.ts";
import * as refusals from "./refusals.ts";

type Kind = typeof ApiError;

const STANDARD_FIELDS = new Set([
  ...["type", "title", "status", "detail", "code", "param", "request_id"],
  ...["error", "error_description"], // OAuth's
]);
const BY_CODE = new Map(Object.values(refusals).map((kind): [string, Kind] => [kind.code, kind]));
const BY_STATUS = new Map(
  Object.values(errors)
    .filter((kind): kind is Kind => "status" in kind && kind !== ApiError)
    .map((kind) => [kind.status, kind]),
);

/** Returns the error for an error answer. */
export function errorFromAnswer(answer: Answer): ApiError {
  return errorFromProblem(parseProblem(answer));
}

/** Returns the error for a code without a status of its own. */
export function errorFromCode(code: string, detail: string): ApiError {
  const Kind = BY_CODE.get(code) ?? BadRequest;
  return new Kind({ status: Kind.status, code, detail });
}

/** Returns the error for the code of the problem, or else for its status. */
function errorFromProblem(problem: Problem): ApiError {
  const fallback = problem.status >= 500 ? ServerError : ApiError;
  const Kind = BY_CODE.get(problem.code ?? "") ?? BY_STATUS.get(problem.status) ?? fallback;
  return new Kind(problem);
}

/** Returns the problem in the answer, which has the form of RFC 9457 or, for OAuth, RFC 6749. */
function parseProblem(answer: Answer): Problem {
  const fields = objectIn(answer.body);
  return {
    status: answer.status,
    code: textIn(fields["code"]) || textIn(fields["error"]),
    detail: textIn(fields["detail"]) || textIn(fields["error_description"]),
    param: textIn(fields["param"]) || null,
    requestId: answer.headers.get("x-request-id"),
    retryAfterSeconds: retryAfterSeconds(answer.headers.get("retry-after") ?? ""),
    members: Object.fromEntries(
      Object.entries(fields).filter(([name]) => !STANDARD_FIELDS.has(name)),
    ),
  };
}

function objectIn(body: string): Record<string, unknown> {
  try {
    const value = parseJson(body);
    return isObject(value) ? value : {};
  } catch {
    return {}; // not sent by the server, but by a proxy in front of it
  }
}

function textIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Returns how long the server asks to wait. The header is a number of seconds or a date. */
function retryAfterSeconds(value: string): number | null {
  if (/^[0-9]+$/.test(value)) return Number(value);
  const moment = /^[A-Z][a-z]{2}, /.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(moment) ? null : Math.max((moment - Date.now()) / 1000, 0);
}
