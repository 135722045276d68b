"""A call whose instructions callgrind can count, though ONNX Runtime's library is stripped of its functions' names."""


class Counted:
    """Makes its call by ``@=``: the interpreter's PyNumber_InPlaceMatrixMultiply, the function that is counted in."""

    def __init__(self, run):
        self.run = run

    def __imatmul__(self, feeds):
        self.run(None, feeds)
        return self


def counted(run, feeds):
    """A function of no arguments that calls ``run(None, feeds)`` within that function of the interpreter."""

    counting = Counted(run)

    def call():
        one = counting
        one @= feeds

    return call
