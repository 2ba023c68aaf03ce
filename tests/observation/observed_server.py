"""A server with an admin port, and the metrics that it tells there."""

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.support.ports import free_port
from tests.support.server import Server


class Scraped:
    """The metrics of one moment."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [each for family in self.families.values() for each in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with this name that have these labels; none is 0."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    @property
    def names(self) -> set[str]:
        """The names of all samples, as a query writes them."""
        return {sample.name for sample in self.samples}


class ObservedServer(Server):
    """A sandbox server with an admin port."""

    def __init__(self, database_url: str, **environment: str) -> None:
        self.admin_port = free_port()
        super().__init__(
            database_url, "--sandbox", "--admin-port", str(self.admin_port), **environment
        )

    def get_admin(self, path: str, method: str = "GET") -> httpx2.Response:
        """Send a request to the admin port."""
        return httpx2.request(method, f"http://127.0.0.1:{self.admin_port}{path}", verify=False)

    def scrape(self) -> Scraped:
        """Return the metrics as they are now."""
        answer = self.get_admin("/metrics")
        assert answer.status_code == 200
        return Scraped(answer.text)
