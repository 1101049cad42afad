"""A model that asks a FHIR base as a program would, for the checks of A2A: medagent run --model PATH/knows.py:Knows."""

import httpx

import medagent

TASK = next(task for task in medagent.tasks() if task.id == "task1_1")


class Knows(medagent.Model):
    """Looks one patient up, by text or over HTTP."""

    async def complete(self, messages, **_):
        prompt = messages[0].content
        if TASK.text not in prompt:
            return medagent.Completion("FINISH([])")
        if "Its base is " in prompt:
            base = prompt.partition("Its base is ")[2].partition(" ")[0]
            token = prompt.partition("Bearer ")[2].partition("`")[0]
            async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as client:
                found = (await client.get(f"{base}/Patient?identifier={TASK.patient}")).json()
            return medagent.Completion(f'FINISH(["{found["entry"][0]["resource"]["id"]}"])')
        if len(messages) == 1:
            return medagent.Completion(f"GET http://localhost:8080/fhir/Patient?identifier={TASK.patient}")
        return medagent.Completion(f'FINISH(["{TASK.patient}"])')
