"""What all journeys share: patience, since a busy machine is no defect."""

from playwright.sync_api import expect

from tests.journeys.visits import WAIT_MILLISECONDS

expect.set_options(timeout=WAIT_MILLISECONDS)
