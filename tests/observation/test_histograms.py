"""Histograms: observing is cheap, and each bound is exact."""

from collections.abc import Callable
from timeit import timeit

import pytest

from ousel.api.observers import RequestObservers
from ousel.api.route import Route
from ousel.http.messages import Answer, Request
from ousel.kernel.clock import system_clock
from ousel.observation.histograms import Histogram
from ousel.observation.metrics import RequestMetrics


def test_a_value_belongs_to_the_first_bound_that_it_does_not_exceed() -> None:
    """Buckets add up from the lowest; what exceeds every bound is in the last, without end."""
    histogram = Histogram((1, 2.5))
    for value in (0, 0.5, 1, 1.0001, 2.5, 100):
        histogram.observe(value)

    assert list(histogram.buckets()) == [("1.0", 3), ("2.5", 5), ("+Inf", 6)]
    assert histogram.total == pytest.approx(105.0001)


def test_to_watch_a_request_costs_next_to_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    """A few microseconds at most, even on a slow machine; the figure is printed."""

    async def handle(_: object) -> Answer:
        return Answer(200, b"")

    route = Route(method="POST", path="/v1/transfers", endpoint=handle, name="t", summary="T")
    watch = RequestObservers(system_clock, [RequestMetrics()])
    request = Request(
        method="POST", path=route.path, query=b"", headers={}, body=b"", ip_address="", route=route
    )
    answer = Answer(201, b"")
    rounds = 20_000

    seconds = min(
        timeit(lambda: watch.notify(request, answer, "req_1", 0.0012), number=rounds)
        for _ in range(5)
    )

    micros = seconds / rounds * 1_000_000
    record_property("figure", f"a watched request costs {micros:.2f} us more")
    assert micros < 20
