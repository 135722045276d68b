"""A case made ready: its model, a file or a graph of one operator, and the arrays that it is fed."""

from opduel_common.inputs import is_shape

from .arrays import Arrays, by_name
from .graphs import make_graph
from .sessions import make_session

MODEL = "model."  # how the operator of a case begins that runs a file
SESSION = "session"  # the input that holds options, no argument of an operator
# What a session says of an input's type, and NumPy's name for it.
TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(string)": "object"}


class Prepared:
    """A case's model and feeds; sessions of it are made when they are asked for."""

    def __init__(self, case, seed):
        """Raises ValueError for what no session has; MissingOperator."""
        if case["direction"] != "forward":
            raise ValueError("ONNX Runtime has no {} direction: use forward".format(case["direction"]))
        if case["context"] != "cpu":
            raise ValueError("this framework measures the CPU provider, not {}".format(case["context"]))
        self.case = case
        self.is_network = case["operator"].startswith(MODEL)
        plain = dict(case["inputs"])
        self.options = options_of(plain.pop(SESSION, None))
        self.arrays = Arrays(case, seed)
        self.made = None
        if self.is_network:
            self.model = case["files"]["model"]
            self.feeds = self.feeds_of_model(plain)
        else:
            self.model, self.feeds = make_graph(case, plain, self.arrays)
        self.arrays.check_dtype()

    def session(self, profile=None):
        """A session; the one that was made to look at a model's inputs is handed out once."""
        made, self.made = (self.made, None) if profile is None else (None, self.made)
        return made or make_session(self.model, self.options, self.is_network, profile)

    def feeds_of_model(self, plain):
        """What a model is fed: by its inputs' names, or in their order (``args``). One whose shape the model fixes may
        be left out.

        Raises ValueError for an input that it doesn't have, one given twice, and one whose shape isn't known.
        """
        self.made = make_session(self.model, self.options, self.is_network)
        wanted = self.made.get_inputs()
        given = by_name([one.name for one in wanted], plain)
        return {one.name: self.feed(one, given.get(one.name)) for one in wanted}

    def feed(self, one, plain):
        """One input's array: of the model's own dtype, and of its own shape where none is given."""
        if plain is None:
            plain = list(one.shape)
            if not is_shape(plain):
                raise ValueError("{} has the shape {}: give its sizes in inputs".format(one.name, plain))
        dtype = TYPES.get(one.type, one.type[len("tensor(") : -1])
        return self.arrays.typed(one.name, plain, dtype)


def options_of(plain):
    """The case's session options: an object, written as an attribute. Raises ValueError."""
    options = {} if plain is None else plain.get("value") if isinstance(plain, dict) else plain
    if not isinstance(options, dict):
        raise ValueError('session must be {"value": {"graph_optimization_level": "all", ...}}')
    return options
