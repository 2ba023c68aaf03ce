"""Histograms: observing is cheap, and each bound is exact."""

import time
from collections.abc import Callable
from timeit import timeit

import pytest

from ousel.api.observers import RequestObserver, RequestObservers
from ousel.api.route import Route
from ousel.http.messages import Answer, Request
from ousel.kernel.clock import system_clock
from ousel.observation.histograms import Histogram
from ousel.observation.metrics import RequestMetrics

ROUND = 20_000
TIMES_MAX = 10


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
    """The metrics take a few times as long as to notify nobody; the figure is printed."""

    async def handle(_: object) -> Answer:
        return Answer(200, b"")

    route = Route(method="POST", path="/v1/transfers", endpoint=handle, name="t", summary="T")
    request = Request(
        method="POST", path=route.path, query=b"", headers={}, body=b"", ip_address="", route=route
    )
    answer = Answer(201, b"")

    def least_cpu_micros(*observers: RequestObserver) -> float:
        watch = RequestObservers(system_clock, observers)
        return min(
            timeit(
                lambda: watch.notify(request, answer, "req_1", 0.0012),
                timer=time.process_time,
                number=ROUND,
            )
            / ROUND
            * 1_000_000
            for _ in range(5)
        )

    nobody = least_cpu_micros()
    micros = least_cpu_micros(RequestMetrics())

    record_property(
        "figure", f"a watched request costs {micros:.2f} us, an unwatched one {nobody:.2f} us"
    )
    assert micros < TIMES_MAX * nobody
