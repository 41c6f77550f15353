"""Sites of DeepSeek-V4.1 against a dump of another implementation, in float64."""

import json
import pathlib

import torch

import geores


def test_sites_of_v41_equal_the_dump():
    """mhc_v41.safetensors: a site reads with the weights of the site before, the last ones make the head."""
    path = pathlib.Path(__file__).parents[1] / "golden" / "mhc_v41.safetensors"
    dump, metadata = geores.load_safetensors(path, with_metadata=True)
    config = json.loads(metadata["config"])
    settings = (config["sinkhorn_iterations"], config["rms_eps"], config["hc_eps"])
    leaves = {key[6:]: value.requires_grad_() for key, value in dump.items() if key.startswith("param/")}
    x = leaves["x"] = dump["x"].clone().requires_grad_()
    sites = range(config["sites"])

    def weights(i):
        return [leaves[f"connections.{i}.{part}"] for part in ("fn", "scale", "base")]

    def sublayer(i, u):
        normal = u * torch.rsqrt(u.square().mean(-1, keepdim=True) + config["rms_eps"])
        return torch.tanh((normal * leaves[f"norms.{i}.weight"]) @ leaves[f"sublayers.{i}.weight"].T)

    def equal(name, value):
        assert (value - dump[name]).abs().max() < 1e-12, name

    u, routes = x[..., 0, :], geores.ops.mhc_mapping(x, *weights(0), *settings)
    for i in sites:
        equal(f"out/collapsed.{i}", u)
        for part in ("pre", "post", "comb"):
            equal(f"out/{part}.{i}", getattr(routes, part))
        f = sublayer(i, u)
        if i + 1 in sites:
            routes = geores.ops.mhc_site(x, f, *routes[-3:], *weights(i + 1), *settings)
            x, u = routes.x, routes.u
        else:
            x = geores.ops.mhc_write(x, f, routes.post, routes.comb)
            u = geores.ops.mhc_read(x, routes.pre)
    equal("out/streams", x)
    equal("out/head", u)
    loss = (x * dump["cotangent/streams"]).sum() + (u * dump["cotangent/head"]).sum()
    for name, gradient in zip(leaves, torch.autograd.grad(loss, list(leaves.values()))):
        expected = dump["grad/" + name]
        assert (gradient - expected).abs().max() < 1e-12 * max(1.0, expected.abs().max()), name
