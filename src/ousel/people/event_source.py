"""The source of an event on a page: which address, device, browser and session it came from."""

from ousel.kernel.ids import secret_hash
from ousel.people.audit import EventSource
from ousel.site.visits import Visit


def event_source(visit: Visit) -> EventSource:
    """Return where a visit comes from, for the audit record."""
    session_hash = "" if visit.person is None else visit.person.session_hash
    return EventSource(visit.ip_address, visit.device, secret_hash(visit.visitor), session_hash)
