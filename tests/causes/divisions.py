"""What a division gives each part."""

from opduel.records.cause import Observation, Part


def differences(observations: list[Observation]) -> dict[str, float]:
    observation = observations[0]
    names = observation["control"].keys() | observation["treatment"].keys()
    nothing = Part(0.0)
    differences_by_name = {
        name: observation["treatment"].get(name, nothing).amount - observation["control"].get(name, nothing).amount
        for name in names
    }
    return {name: value for name, value in differences_by_name.items() if abs(value) > 1e-9}
