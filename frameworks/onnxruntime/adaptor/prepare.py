"""Prepare a case: its model, a file or a graph of one operator, and its input arrays."""

from opduel_common.inputs import is_shape

from .arrays import Arrays, inputs_by_name
from .graphs import make_graph
from .sessions import make_session

MODEL = "model."  # prefix of the operator of a case that runs a file
SESSION = "session"  # the input that holds options, not an argument of an operator
# NumPy's names of the types of a session's inputs, where they differ.
TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(string)": "object"}


class Prepared:
    """A case's model and feeds, and its sessions on demand."""

    def __init__(self, case, seed):
        """Raise ValueError for a direction or context that no session has, and MissingOperator."""
        if case["direction"] != "forward":
            raise ValueError("ONNX Runtime has no {} direction: use forward".format(case["direction"]))
        if case["context"] != "cpu":
            raise ValueError("this framework measures the CPU provider, not {}".format(case["context"]))
        self.case = case
        self.is_network = case["operator"].startswith(MODEL)
        plain = dict(case["inputs"])
        self.options = options_of(plain.pop(SESSION, None))
        self.arrays = Arrays(case, seed)
        self.spare_session = None
        if self.is_network:
            self.model = case["files"]["model"]
            self.feeds = self.feeds_of_model(plain)
        else:
            self.model, self.feeds = make_graph(case, plain, self.arrays)
        self.arrays.check_dtype()

    def session(self, profile=None):
        """Return a session; the one that was made to read a model's inputs is returned once."""
        session, self.spare_session = (self.spare_session, None) if profile is None else (None, self.spare_session)
        return session or make_session(self.model, self.options, self.is_network, profile)

    def feeds_of_model(self, plain):
        """Return a model's inputs by name; the case names them, or gives them in order (``args``).

        An input whose shape the model fixes may be left out. Raise ValueError for an input that the model doesn't have,
        one given twice, and one of unknown shape.
        """
        self.spare_session = make_session(self.model, self.options, self.is_network)
        model_inputs = self.spare_session.get_inputs()
        plain_by_name = inputs_by_name([model_input.name for model_input in model_inputs], plain)
        return {
            model_input.name: self.feed(model_input, plain_by_name.get(model_input.name))
            for model_input in model_inputs
        }

    def feed(self, model_input, plain):
        """Return one input's array, of the model's dtype, and of the model's shape if the case gives none."""
        if plain is None:
            plain = list(model_input.shape)
            if not is_shape(plain):
                raise ValueError(f"{model_input.name} has the shape {plain}: give its sizes in inputs")
        dtype = TYPES.get(model_input.type, model_input.type[len("tensor(") : -1])
        return self.arrays.make_array(model_input.name, plain, dtype)


def options_of(plain):
    """Return the case's session options, an object written as {"value": ...}. Raise ValueError."""
    options = {} if plain is None else plain.get("value") if isinstance(plain, dict) else plain
    if not isinstance(options, dict):
        raise ValueError('session must be {"value": {"graph_optimization_level": "all", ...}}')
    return options
