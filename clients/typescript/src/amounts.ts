/** Amounts are exact: a whole number of millionths, never a float. */

const DECIMALS = 6;
const UNIT = 10n ** BigInt(DECIMALS);
const WRITTEN = /^(-?)([0-9]{1,20})(?:\.([0-9]{1,6}))?$/;

/** An amount for a call: "25.00", 25n or an Amount. A number is refused: it may be rounded. */
export type AmountLike = Amount | string | bigint;

/** An exact amount of money. */
export class Amount {
  /** The amount in millionths: 25.00 OUSD are 25_000_000n. */
  readonly micros: bigint;

  constructor(micros: bigint) {
    this.micros = micros;
  }

  /** Returns the amount that is written as "25.00", or that is a whole number such as 25n. */
  static of(value: AmountLike): Amount {
    if (value instanceof Amount) return value;
    if (typeof value === "bigint") return new Amount(value * UNIT);
    if (typeof value !== "string") {
      throw new TypeError(
        `An amount must be a string such as "25.00", a bigint or an Amount, not a ${typeof value}.`,
      );
    }
    const [, sign, whole = "", decimals = ""] = WRITTEN.exec(value) ?? refuse(value);
    const micros = BigInt(whole) * UNIT + BigInt(decimals.padEnd(DECIMALS, "0"));
    return new Amount(sign ? -micros : micros);
  }

  plus(other: AmountLike): Amount {
    return new Amount(this.micros + Amount.of(other).micros);
  }

  minus(other: AmountLike): Amount {
    return new Amount(this.micros - Amount.of(other).micros);
  }

  equals(other: AmountLike): boolean {
    return this.compare(other) === 0;
  }

  /** Returns -1, 0 or 1, as a function for Array.sort does. */
  compare(other: AmountLike): -1 | 0 | 1 {
    const { micros } = Amount.of(other);
    return this.micros < micros ? -1 : this.micros > micros ? 1 : 0;
  }

  /** Returns the amount with at least two decimals, as the server writes it: "25.00". */
  toString(): string {
    const digits = (this.micros < 0n ? -this.micros : this.micros).toString();
    const padded = digits.padStart(DECIMALS + 1, "0");
    const decimals = padded.slice(-DECIMALS).replace(/0{1,4}$/, "");
    return `${this.micros < 0n ? "-" : ""}${padded.slice(0, -DECIMALS)}.${decimals}`;
  }

  /** Returns a string, so that an amount survives JSON.stringify. `Amount.of` reads it again. */
  toJSON(): string {
    return this.toString();
  }

  /** Lets `${amount}` work, and refuses `amount + 1` and `amount < other`, which would be wrong. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === "string") return this.toString();
    throw new TypeError("Use plus, minus, equals and compare to calculate with an Amount.");
  }
}

function refuse(value: string): never {
  throw new RangeError(`"${value.slice(0, 40)}" is not an amount such as "25.00".`);
}
