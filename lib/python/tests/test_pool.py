"""gravel.mem_pool(): what it says where there is no GPU, and how it makes a pool. test/jobs/pool_job.py checks on a GPU
that tensors of a pool are destinations."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import gravel as gr
from gravel import _pool


def fake_torch(is_available: bool, made: list[Any]) -> types.ModuleType:
    torch = types.ModuleType("torch")

    class Allocator:
        def __init__(self, *arguments: str) -> None:
            made.append(arguments)

        def allocator(self) -> str:
            return "the allocator"

    memory = types.SimpleNamespace(CUDAPluggableAllocator=Allocator)
    vars(torch).update(
        __version__="2.9.0",
        cuda=types.SimpleNamespace(is_available=lambda: is_available, memory=memory, MemPool=lambda a: ("pool", a)),
    )
    return torch


def test_no_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(gr.Error, match="gravel.mem_pool: it needs PyTorch"):
        gr.mem_pool()


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch(False, []))
    with pytest.raises(gr.Error, match="gravel.mem_pool: PyTorch has no CUDA here"):
        gr.mem_pool()


def test_pytorch_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = fake_torch(True, [])
    del torch.cuda.MemPool
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(gr.Error, match="PyTorch 2.9.0 has no torch.cuda.MemPool"):
        gr.mem_pool()


def test_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(True, made))
    monkeypatch.setattr(_pool, "_allocator", None)
    monkeypatch.setattr(_pool.native, "backend", lambda: "cpu")
    with pytest.raises(gr.Error, match="the job runs on the CPU backend"):
        gr.mem_pool()
    monkeypatch.setattr(_pool.native, "backend", lambda: "cuda")
    assert gr.mem_pool() == gr.mem_pool() == ("pool", "the allocator")
    assert len(made) == 1  # pools share it
    library, allocate, release = made[0]
    assert "libgravel.so" in library
    with open(library, "rb") as file:
        text = file.read()
    assert all(name.encode() in text for name in (allocate, release))
