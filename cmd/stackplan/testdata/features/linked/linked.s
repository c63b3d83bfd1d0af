// Its presence allows functions without a body.
