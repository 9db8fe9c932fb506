"""Exceptions as model providers raise them."""

from __future__ import annotations

from typing import Any

import httpx2 as httpx
import openai

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def openai_error(
    status: int, *, code: str | None = None, kind: str | None = None, message: str = "no", headers: Any = None
) -> openai.APIStatusError:
    """What the OpenAI client raises for an answer with `status`."""
    classes: dict[int, type[openai.APIStatusError]] = {
        400: openai.BadRequestError,
        401: openai.AuthenticationError,
        403: openai.PermissionDeniedError,
        404: openai.NotFoundError,
        409: openai.ConflictError,
        422: openai.UnprocessableEntityError,
        429: openai.RateLimitError,
    }
    made = classes.get(status, openai.InternalServerError if status >= 500 else openai.APIStatusError)
    body = {"message": message, "type": kind, "code": code}
    response = httpx.Response(status, headers=headers, request=REQUEST)
    return made(f"Error code: {status} - {{'error': {body}}}", response=response, body=body)


def timeout() -> openai.APITimeoutError:
    """What the OpenAI client raises when there is no answer in time."""
    return openai.APITimeoutError(request=REQUEST)


def named(name: str, text: str = "", *bases: type[Exception], **attributes: Any) -> Exception:
    """An exception of a class of that name, with the given attributes."""
    kind = type(name, bases or (Exception,), {})
    error: Exception = kind(text)
    for key, value in attributes.items():
        setattr(error, key, value)
    return error
