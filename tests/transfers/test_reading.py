"""GET /transfers/:id: one transfer, as the caller's account sees it."""

from tests.support.problems import assert_problem
from tests.support.world import World


async def test_both_sides_read_a_transfer_by_its_id(world: World) -> None:
    """Each gets the record that its list contains."""
    async with world.partner("5") as sender, world.partner("5") as recipient:
        body = f'{{"to":"@{recipient.account.username}","amount":1,"note":"tea"}}'
        created = await sender.send(body, "tea")
        path = f"/transfers/{created.json()['id']}"

        for side in (sender, recipient):
            (newest,) = (await side.client.get("/transfers?limit=1")).json()["data"]
            answer = await side.client.get(path)
            assert answer.status_code == 200
            assert answer.json() == newest
            assert newest["sequence"] == 2


async def test_a_transfer_that_is_not_the_callers_is_not_found(world: World) -> None:
    """Another's transfer, an unknown id and a malformed one are answered alike."""
    async with world.partner("5") as sender, world.partner("5") as stranger:
        ada = await world.person()
        created = (await sender.send(f'{{"to":"@{ada.username}","amount":1}}')).json()
        for wrong in (created["id"], "tr_" + "0" * 26, "ch_1", "%00"):
            answer = await stranger.client.get(f"/transfers/{wrong}")
            problem = assert_problem(answer, 404, "transfer_not_found")
            assert problem["detail"] == "There is no transfer with this id."
