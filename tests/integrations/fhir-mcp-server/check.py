"""wso2's fhir-mcp-server over `medagent serve`: it says what the server can, searches, reads and creates."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import medagent

task = next(task for task in medagent.tasks() if task.id == "task2_1")
HERE = Path(sys.executable).parent


async def check(base: str) -> str:
    """What was found."""
    settings = {
        "FHIR_SERVER_BASE_URL": base,
        "FHIR_SERVER_ACCESS_TOKEN": "unused",  # over stdio it insists on one
        "FHIR_SERVER_DISABLE_AUTHORIZATION": "True",
    }
    words = ["--transport", "stdio", "--log-level", "error"]
    server = StdioServerParameters(command=str(HERE / "fhir-mcp-server"), args=words, env={**os.environ, **settings})
    async with stdio_client(server) as (incoming, outgoing), ClientSession(incoming, outgoing) as client:
        await client.initialize()

        async def call(tool: str, **arguments: object) -> str:
            answer = await client.call_tool(tool, arguments)
            assert not answer.isError, answer
            return "".join(part.text for part in answer.content)

        assert "identifier" in await call("get_capabilities", type="Patient")
        found = await call("search", type="Patient", searchParam={"identifier": task.eval_MRN})
        assert task.eval_MRN in found, found
        observations = await call("search", type="Observation", searchParam={"patient": task.eval_MRN, "_count": "2"})
        assert "Observation" in observations, observations
        read = json.loads(await call("read", type="Patient", id=task.eval_MRN))
        assert "birthDate" in json.dumps(read), read
        nobody = await call("search", type="Patient", searchParam={"identifier": "nobody"})
        assert "birthDate" not in nobody, nobody
        refused = await client.call_tool("read", {"type": "Patient", "id": "nobody"})
        assert "birthDate" not in str(refused), refused
        basic = {"resourceType": "Basic", "code": {"text": "made by fhir-mcp-server"}}
        created = await call("create", type="Basic", payload=basic)
        assert "made by fhir-mcp-server" in created, created
        tools = (await client.list_tools()).tools
    return f"{len(tools)} tools; capabilities, search, read and create work"


served = subprocess.Popen([HERE / "medagent", "serve", "--port", "0"], stderr=subprocess.PIPE, text=True)
try:
    base = ""
    while "http" not in base:
        base = served.stderr.readline()
        assert base, "the server has ended"
    print(asyncio.run(check(base.split()[1])))
finally:
    served.terminate()
    served.communicate(timeout=60)
