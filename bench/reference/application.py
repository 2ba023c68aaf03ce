"""A conventional transfer service: FastAPI, pydantic, asyncpg, SELECT FOR UPDATE.

A transfer gives the same guarantees as in Ousel (money moves exactly once, completely and
durably), which shows what they cost if each request is a transaction of its own.
"""

import hashlib
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import asyncpg
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from pydantic import BaseModel, Field


class TransferRequest(BaseModel):
    """The amount and the recipient."""

    to: str = Field(min_length=1, max_length=320)
    amount: Decimal = Field(gt=0, max_digits=15, decimal_places=6)
    note: str | None = Field(default=None, max_length=500)


class Transfer(BaseModel):
    """A transfer."""

    id: uuid.UUID
    sender: str
    recipient: str
    amount: Decimal
    note: str | None
    idempotency_key: str | None
    balance_after: Decimal
    created_at: datetime


@asynccontextmanager
async def lifespan(application: FastAPI) -> AsyncIterator[None]:
    """Keep a connection pool open while the application runs."""
    async with asyncpg.create_pool(os.environ["REFERENCE_DATABASE_URL"], max_size=20) as pool:
        application.state.pool = pool
        yield


application = FastAPI(lifespan=lifespan)


async def connection(request: Request) -> AsyncIterator[Any]:
    """Take a connection from the pool for one request."""
    async with request.app.state.pool.acquire() as lent:
        yield lent


Connection = Annotated[Any, Depends(connection)]


async def sender_id(connection: Connection, authorization: Annotated[str, Header()]) -> str:
    """Return the account that the key belongs to."""
    key_hash = hashlib.sha256(authorization.removeprefix("Bearer ").encode()).hexdigest()
    account_id = await connection.fetchval(
        "SELECT account_id FROM api_keys WHERE key_hash = $1", key_hash
    )
    if account_id is None:
        raise HTTPException(401, "The key is not valid.")
    return str(account_id)


@application.get("/healthz")
async def alive() -> dict[str, str]:
    """Answer that the process runs."""
    return {"status": "ok"}


@application.post("/v1/transfers", status_code=201)
async def create_transfer(
    wish: TransferRequest,
    response: Response,
    connection: Connection,
    sender: Annotated[str, Depends(sender_id)],
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Transfer:
    """Move the money in one transaction; a repeated key returns the first transfer."""
    async with connection.transaction():
        recipient = await connection.fetchval(
            "SELECT id FROM accounts WHERE username = $1", wish.to.removeprefix("@")
        )
        if recipient is None or recipient == sender:
            raise HTTPException(404, "There is no such recipient.")
        rows = await connection.fetch(
            "SELECT id, balance FROM accounts WHERE id = ANY($1) ORDER BY id FOR UPDATE",
            [sender, recipient],
        )
        if idempotency_key is not None:
            first = await connection.fetchrow(
                "SELECT * FROM transfers WHERE sender = $1 AND idempotency_key = $2",
                sender,
                idempotency_key,
            )
            if first is not None:
                response.status_code = 200
                return Transfer(**first)
        balance = {row["id"]: row["balance"] for row in rows}[sender]
        if balance < wish.amount:
            raise HTTPException(400, "The balance is too low.")
        await connection.execute(
            "UPDATE accounts SET balance = balance - $2 WHERE id = $1", sender, wish.amount
        )
        await connection.execute(
            "UPDATE accounts SET balance = balance + $2 WHERE id = $1", recipient, wish.amount
        )
        row = await connection.fetchrow(
            "INSERT INTO transfers (id, sender, recipient, amount, note, idempotency_key,"
            " balance_after) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *",
            uuid.uuid4(),
            sender,
            recipient,
            wish.amount,
            wish.note,
            idempotency_key,
            balance - wish.amount,
        )
    return Transfer(**row)
