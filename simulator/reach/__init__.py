"""The reach of the simulator: which functions were called over many seeds.

    worker process:  marking.install ─► modules are imported marked ─► seeds run ─► marking.reached
    main process:    functions.all_of ─► table.Table ◄─ reached by each worker

A mark is one store at the beginning of a function, some 30 ns, so that every run of `make sim` can
measure its reach. (`sys.settrace` and `sys.setprofile` would take three to four times as long.)
"""
