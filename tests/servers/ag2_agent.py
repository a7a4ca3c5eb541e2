"""A remote agent of AG2 over A2A, whose model does what a message says. Prints its address, and serves until it is ended.

The last line of a message that has one of these words first decides: `answer TEXT`, `pieces TEXT` for the same word by
word, `wait SECONDS` before an answer, `break TEXT` for a model that fails.
"""

import asyncio
import socket

import uvicorn
from a2a.types import AgentSkill
from ag2 import Agent
from ag2.a2a import A2AServer, build_card
from ag2.events import ModelMessageChunk, ModelRequest, TextInput
from ag2.testing import TestConfig


class Model(TestConfig):
    """A model that is its own client."""

    def create(self):
        return self

    async def __call__(self, messages, context, **more):
        asked = [it for it in messages if isinstance(it, ModelRequest)][-1]
        text = "\n".join(it.content for it in asked.parts if isinstance(it, TextInput))
        word, rest = "answer", "nothing was asked for"
        for line in text.splitlines():
            first, _, others = line.partition(" ")
            if first in ("answer", "pieces", "wait", "break"):
                word, rest = first, others
        if word == "wait":
            await asyncio.sleep(float(rest))
        if word == "pieces":
            for piece in rest.split(" "):
                await context.send(ModelMessageChunk(piece + " "))
        says = RuntimeError(rest) if word == "break" else rest
        return await TestConfig(says).create()(messages, context, **more)


def main():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        agent = Agent("remote", "Do as you are told.", config=Model())
        skill = AgentSkill(id="obey", name="obey", description="Does as it is told.", tags=["test"])
        about = {"version": "1", "description": skill.description, "skills": [skill]}
        card = build_card(agent, url=address, transports=("jsonrpc",), **about)
        app = A2AServer(agent).build_jsonrpc(url=address, card=card)
        print(address, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listening])


if __name__ == "__main__":
    main()
