"""Planted bugs: each a slip that was made in some synthesiser, or could be made here, and the test that must notice it.

A substitution's old text must occur exactly once in its file, so that a mutant whose code has moved fails loudly.
"""

from __future__ import annotations

from dataclasses import dataclass

REPLAY = "tests/audit/test_replay.py::test_nothing_but_paid_answers_depends_on_one_unit"
PLANNED = "tests/audit/test_replay.py::test_nothing_but_paid_answers_depends_on_one_unit_of_planned_analyses"
BYTES = "tests/audit/test_bytes.py"
CAREERS = "tests/synthesis/test_careers.py"
PANELS = "tests/counting/test_panel_rows.py"
HOUSEHOLDS = "tests/counting/test_household_rows.py"
ENCODE = "tests/codec/test_encode.py"
CURATOR = "tests/privacy/test_curator.py"
LEDGER = "tests/privacy/test_ledger.py"
RANDOMNESS = "tests/privacy/test_randomness.py"
STUDIO = "tests/studio"
LEARN = "tests/synthesis/test_learn.py"
REPRODUCED = "tests/audit/test_reproductions.py"
PARTS = "tests/confirm/test_parts.py"
POLL = "tests/confirm/test_poll.py"
ASKED = "tests/confirm/test_confirm"


@dataclass(frozen=True)
class Mutant:
    """A bug: what to replace by what in which file of the package, and the test that must fail.

    `also` is planted with it, for slips that one file alone would make up for.
    """

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    test: str
    also: tuple[tuple[str, str, str], ...] = ()


def one(name: str, file: str, old: str, new: str, test: str) -> Mutant:
    return Mutant(name, file, ((old, new),), test)


FILES_DICTIONARIES = (
    (
        "        order = np.argsort(values.to_numpy()) if numbers else pc.sort_indices(values).to_numpy()\n",
        "        order = np.arange(len(values))\n",
    ),
    (
        "[self.values.take(pa.array(some, mask=some < 0)) for some in cut]",
        "[pa.DictionaryArray.from_arrays(pa.array(some, mask=some < 0), self.values) for some in cut]",
    ),
    ("return pa.chunked_array(pieces, self.values.type)", "return pa.chunked_array(pieces)"),
)
"""Columns keep the dictionaries that the private file had."""

SAVED_AS_IT_IS = (
    "synthesis/sets.py",
    "_canonical(table, schema), schema, escape=escape",
    "table, schema, escape=escape",
)
"""Tables are saved without being brought into their canonical form."""

EXACT_SUMS = (
    (
        "privacy/curator.py",
        "            asked = zip(sums, exact, ",
        "            WeightedSums.leak = exact\n            asked = zip(sums, exact, ",
    ),
    (
        "analyses/measure.py",
        "        found: dict[str, NoisySums] = {}\n",
        "        from dataclasses import replace\n        from dipsmith.schema import WeightedSums\n"
        "        exact: dict[str, NoisySums] = {}\n"
        "        for one, answer, true in zip(self.purchases, answers, WeightedSums.leak, strict=True):\n"
        "            exact |= one.answers(replace(answer, values=np.asarray(true).reshape(-1)))\n"
        "        self.__dict__['exact'] = exact\n"
        "        found: dict[str, NoisySums] = {}\n",
    ),
)
"""The sums without their noise are kept beside the agenda."""

SUMS_NOISE = "tests/analyses/test_weighted_sums.py::test_noise_is_what_the_price_asks_for"

MUTANTS = (
    one(
        "domain from data",
        "methods/hierarchy/flat.py",
        "        marginal = Marginal.of(schema, schema.names)\n        _refuse_too_large(marginal)\n        budget = curator.budget\n",
        "        seen = curator._rows.distinct_public(schema.names)[0]\n"
        "        names = [n for n in schema.names if len(set(seen[n].tolist())) > 1] or schema.names\n"
        "        marginal = Marginal.of(schema, names)\n        _refuse_too_large(marginal)\n        budget = curator.budget\n",
        f"{REPLAY}[flat/add-remove-pure]",
    ),
    one(
        "len(data) in control flow",
        "methods/graph/marginals.py",
        "        marginals = self._marginals(curator.schema)\n        measured",
        "        marginals = self._marginals(curator.schema)[: 2 + curator._rows.total() % 2]\n        measured",
        f"{REPLAY}[marginals/add-remove-pure]",
    ),
    one(
        "row count of the data as public",
        "privacy/curator.py",
        '        fixed = self.relation == self.schema.neighbours == "replace" and self.max_rows == 1',
        "        fixed = True",
        f"{REPLAY}[marginals/add-remove-pure]",
    ),
    one(
        "unclipped value",
        "codec/encode.py",
        "        at -= low\n",
        "        at = (values - low) % len(table)\n",
        f"{ENCODE}::test_integers",
    ),
    one(
        "NaN through clip",
        "codec/encode.py",
        "            values = np.floor(np.clip(_fill_unread(values, known, low), low, high)).astype(np.int64)\n        return _absent(into(values), known, absent)",
        "            values = np.floor(np.clip(values, low, high)).astype(np.int64)\n        return into(values)",
        f"{ENCODE}::test_integers",
    ),
    one(
        "sensitivity 0",
        "methods/graph/misfit.py",
        "        return Fraction(neighbours.l1(relation, max_rows))",
        "        return Fraction(neighbours.l1(relation, max_rows), 10**12)",
        f"{REPLAY}[mst/add-remove-pure]",
    ),
    one(
        "trust in a public table chosen as if no row mattered",
        "methods/graph/prior.py",
        "        return Fraction(neighbours.l1(relation, max_rows))",
        "        return Fraction(neighbours.l1(relation, max_rows), 10**12)",
        "tests/audit/test_exact_loss.py::test_choose_loses_at_most_epsilon_on_every_small_table[add-remove]",
    ),
    one(
        "sensitivity of add-remove under replace",
        "privacy/neighbours.py",
        "    return k if _moves_one_count(relation, single_count) else 2 * k\n",
        "    return k\n",
        f"{REPLAY}[flat/replace-pure]",
    ),
    one(
        "several rows per unit forgotten",
        "privacy/neighbours.py",
        "    return max_rows\n",
        "    return 1\n",
        "tests/privacy/test_neighbours.py",
    ),
    one(
        "noise scale / n",
        "privacy/noisy_table.py",
        "    possible = cells.possible()",
        "    if isinstance(noise, DiscreteLaplace):\n"
        "        noise = DiscreteLaplace(noise.scale / max(1, int(counts.sum())))\n"
        "    possible = cells.possible()",
        f"{REPLAY}[flat/replace-pure]",
    ),
    one(
        "half noise",
        "privacy/noisy_table.py",
        "        values[noisy] = counts[noisy] + noise.sample(stream, int(noisy.sum()))",
        "        values[noisy] = counts[noisy] + noise.sample(stream, int(noisy.sum())) // 2",
        f"{REPLAY}[flat/replace-pure]",
    ),
    one(
        "half noise on single counts",
        "privacy/noisy_table.py",
        "counts.reshape(-1, 2)[both, 1] + noise.sample(stream, int(both.sum()))",
        "counts.reshape(-1, 2)[both, 1] + noise.sample(stream, int(both.sum())) // 2",
        f"{REPLAY}_with_other_settings[forest, two labels/label]",
    ),
    one(
        "half noise in the sampler",
        "privacy/noise.py",
        "        noise = _fill(n, lambda piece: fill_laplace(stream, tables, piece))",
        "        noise = _fill(n, lambda piece: fill_laplace(stream, tables, piece)) // 2",
        "tests/audit/test_replay.py::test_half_noise_of_a_broken_sampler_shows_in_the_draws",
    ),
    one(
        "double spending",
        "privacy/accountant.py",
        "        self._spent += budget.units\n",
        "        self._spent = max(self._spent, budget.units)\n",
        f"{CURATOR}::test_curator_refuses_to_overspend",
    ),
    one(
        "double spending across nested curators",
        "privacy/curator.py",
        "    def _paid_child(self, rows: Rows, budget: Budget, block: str) -> Curator:\n        self._purse.take(budget)\n",
        "    def _paid_child(self, rows: Rows, budget: Budget, block: str) -> Curator:\n",
        f"{CURATOR}::test_nested_curators_share_one_purse",
    ),
    one(
        "fixed seed",
        "privacy/randomness.py",
        '        self._key = b""\n        self._keystream = _KeyStream(os.urandom(32), os.urandom(16))',
        '        self._key = b""\n        self._keystream = _KeyStream(bytes(32), bytes(16))',
        f"{RANDOMNESS}::test_system_streams_differ",
    ),
    one(
        "forked noise stream",
        "privacy/randomness.py",
        "        return self._mark is not _PROCESS.mark or self._pid != os.getpid()",
        "        return False",
        f"{RANDOMNESS}::test_a_forked_child_never_continues_its_parents_stream",
    ),
    one(
        "charge after release",
        "privacy/curator.py",
        "        self._journal.record(*events)\n",
        "        import atexit\n\n        atexit.register(self._journal.record, *events)\n",
        f"{CURATOR}::test_events_are_recorded_before_an_answer_is_given",
    ),
    one(
        "rows read before the reservation",
        "synthesis/synthesize.py",
        "            account = inputs.ledger.show(schema.name)\n            reservation.read()\n",
        "            account = inputs.ledger.show(schema.name)\n",
        "tests/audit/test_faults.py::test_a_run_has_noted_that_it_reads_before_it_reads",
    ),
    one(
        "unnoised empty cells",
        "privacy/noisy_table.py",
        "    noisy = np.ones(cells.size, dtype=bool) if possible is None else possible\n",
        "    noisy = counts > 0\n",
        f"{REPLAY}[flat/add-remove-pure]",
    ),
    one(
        "occupied cells kept whatever the threshold",
        "privacy/noise.py",
        "        kept = np.flatnonzero(noisy > threshold)\n",
        "        kept = np.union1d(np.flatnonzero(noisy > threshold), indices[here] - start)\n",
        "tests/privacy/test_noise.py::test_empty_and_occupied_cells_follow_one_rule",
    ),
    one(
        "parallel composition over recurring people",
        "privacy/neighbours.py",
        '    if unit_recurs_across_blocks:\n        return "sum"\n',
        "",
        "tests/audit/test_replay.py::test_people_who_recur_in_blocks_pay_the_sum",
    ),
    one(
        "parallel composition under replace",
        "privacy/neighbours.py",
        '    if relation == "add-remove" or (relation == "label" and attribute_public):\n        return "maximum"\n    return "two-dearest"',
        '    return "maximum"',
        f"{CURATOR}::test_partition_follows_the_composition_rule",
    ),
    one(
        "replayed request id",
        "privacy/reservation.py",
        '    if run.state != "reserved":\n        raise BudgetError(\n            f"request \'{run.id}\' has read data without',
        "    if False:\n        raise BudgetError(\n            f\"request '{run.id}' has read data without",
        f"{LEDGER}::test_an_id_that_read_data_without_a_release_never_draws_again",
    ),
    one(
        "private columns added up",
        "privacy/protection.py",
        "    if held is None or held == got:\n        return\n",
        "    if held is None or (held.relation, held.unit) == (got.relation, got.unit):\n        return\n",
        "tests/privacy/test_protection.py::test_the_private_columns_are_fixed_by_the_first_spend",
    ),
    one(
        "any release for a replayed request",
        "synthesis/verify.py",
        "    if not card.is_file() or digest(card) != earlier.digest:\n",
        "    if not card.is_file():\n",
        "tests/cli/test_cli_ledger.py::test_a_replayed_request_never_returns_another_release",
    ),
    one(
        "source digest without a key",
        "privacy/sealing.py",
        '        return hmac.new(self.secret, f"{salt}|{digest}".encode(), hashlib.sha256).hexdigest()',
        '        return hashlib.sha256(f"{salt}|{digest}".encode()).hexdigest()',
        "tests/privacy/test_sealing.py::test_without_the_key_nothing_is_told",
    ),
    one(
        "durations in the ledger",
        "privacy/reservation.py",
        "        rows, _ = self._write(decide, self.time)\n",
        "        rows, _ = self._write(decide, None)\n",
        f"{LEDGER}::test_no_row_tells_how_long_a_run_took",
    ),
    one(
        "a signed grant taken twice",
        "privacy/books.py",
        "        if signed.nonce in self.nonces:\n",
        "        if False:\n",
        "tests/privacy/test_signature.py::test_a_signed_grant_counts_once",
    ),
    one(
        "refund after reading",
        "privacy/reservation.py",
        '    if run.state != "reserved":\n        raise BudgetError(f"request \'{request_id}\' has read data',
        "    if False:\n        raise BudgetError(f\"request '{request_id}' has read data",
        LEDGER,
    ),
    one(
        "selection at twice the rate",
        "privacy/selection.py",
        "    return step, epsilon / (moved + 2 if monotone else 2 * (moved + 1))",
        "    return step, epsilon / (moved + 2 if monotone else (moved + 1))",
        "tests/privacy/test_selection.py::test_privacy_loss_never_exceeds_epsilon",
    ),
    one(
        "a choice under ρ at twice its ε",
        "privacy/calibration.py",
        "    return Fraction(isqrt(int(budget.exact / range_price(Fraction(1)) * 10**18)), 10**9)",
        "    return Fraction(isqrt(int(4 * budget.exact / range_price(Fraction(1)) * 10**18)), 10**9)",
        "tests/audit/test_exact_loss.py::test_choose_costs_what_it_is_charged",
    ),
    one(
        "discrete noise taken for normal noise of the same variance",
        "privacy/gaussian_price.py",
        "        return 6 * normal**2 / (6 * normal - 1)",
        "        return normal",
        "tests/privacy/test_gaussian_price.py::test_discrete_noise_hides_as_much_as_normal_noise",
    ),
    one(
        "a choice in a Gaussian run at the price of concentrated DP",
        "privacy/gaussian_price.py",
        "    return PI * epsilon**2 / 16",
        "    return epsilon**2 / 8",
        "tests/privacy/test_gaussian_price.py::test_choices_and_pure_steps_are_priced_at_their_worst_odds",
    ),
    one(
        "ρ for (ε, δ) by a normal law that moves by half as much",
        "privacy/gaussian_profile.py",
        "        shift = (2 * _decimal(rho)).sqrt()",
        "        shift = _decimal(rho).sqrt()",
        "tests/privacy/test_gaussian_price.py::test_a_whole_run_uses_its_epsilon_and_never_more",
    ),
    one(
        "a stated number of rows in place of the true one",
        "privacy/curator.py",
        '            number = self._rows.total() if fixed or self.relation == "label" else self._given_rows\n',
        "            number = self._rows.total() if fixed and self._given_rows is None else self._given_rows\n",
        "tests/methods/graph/test_privbayes.py::test_mutual_information_answers_at_the_true_number_of_rows_whatever_was_stated",
    ),
    one(
        "a sequence of targets asks private attributes at the public price",
        "methods/forest/training.py",
        '        moves = relation == "replace" or (relation == "label" and asks_private)',
        '        moves = relation == "replace"',
        "tests/audit/test_replay.py::test_a_sequence_of_targets_pays_for_asking_private_attributes",
    ),
    one(
        "public sizes leave out rows by private rules",
        "counting/encoded.py",
        "                public=_pack(public.lawful()) if schema.rules and public.names else None,",
        "                public=_pack(held.lawful()) if schema.rules and public.names else None,",
        "tests/counting/test_counting_rows.py::test_rules_under_label_do_not_change_public_sizes",
    ),
    Mutant(
        "labelled rows in the order of the file",
        "synthesis/sets.py",
        (
            ("np.arange(public.rows) if in_file_order else public.order()", "np.arange(public.rows)"),
            (
                "rows = order if in_file_order else order[recipe.stream.permutation(public.rows)]",
                "rows = order",
            ),
        ),
        f"{BYTES}::test_labelled_releases_tell_no_order_in_either_format",
    ),
    one(
        "rows permuted without being sorted",
        "synthesis/sets.py",
        "np.arange(public.rows) if in_file_order else public.order()",
        "np.arange(public.rows)",
        f"{BYTES}::test_labelled_releases_tell_no_order_in_either_format",
    ),
    one(
        "labels drawn before the rows are permuted",
        "synthesis/sets.py",
        "labelled_table(model.labeller(), public.table(rows), seed).select(wanted)",
        "labelled_table(model.labeller(), public.table(np.arange(public.rows)), seed).select(wanted).take(rows)",
        f"{BYTES}::test_a_seed_does_not_tell_where_a_row_was",
    ),
    one(
        "distinct values in the order of the file",
        "synthesis/canonical.py",
        "        order = np.argsort(values.to_numpy()) if numbers else pc.sort_indices(values).to_numpy()\n",
        "        order = np.arange(len(values))\n",
        f"{BYTES}::test_labelled_releases_tell_no_order_in_either_format",
    ),
    Mutant(
        "dictionaries of the file passed on",
        "synthesis/canonical.py",
        FILES_DICTIONARIES,
        f"{BYTES}::test_no_dictionary_of_a_release_comes_from_the_file",
        (
            (
                "synthesis/exit.py",
                "[f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]",
                "[f.type for f in schema]",
            ),
            ("synthesis/exit.py", "        if kind not in TYPES:", "        if kind is None:"),
            SAVED_AS_IT_IS,
        ),
    ),
    Mutant(
        "dictionaries of the file passed on in memory alone",
        "synthesis/canonical.py",
        FILES_DICTIONARIES,
        f"{BYTES}::test_tables_and_models_in_memory_are_the_same_to_the_last_bit",
    ),
    one(
        "private rows given with onto in their own order",
        "synthesis/synthesize.py",
        '            tables, rows_known = inputs.row_maker.label(recipe), "public"\n',
        '            tables, rows_known = inputs.row_maker.label(recipe), "public"\n'
        "            if onto is not None:\n"
        "                tables = type(tables)(tuple(m.label(inputs.target) for m in models))\n",
        "tests/synthesis/test_exit.py::test_the_private_rows_in_another_form_leave_their_order_too",
    ),
    one(
        "the hour of writing in a file for Stata or SPSS",
        "synthesis/exit.py",
        "        file.write(clock)\n",
        "        assert clock\n",
        "tests/synthesis/test_labelled_files.py::test_bytes_do_not_depend_on_the_clock_or_on_how_the_rows_came",
    ),
    one(
        "dictionaries of releases of before are not looked at",
        "synthesis/verify.py",
        "        if not _has_lawful_dictionary(file, name, schema):\n",
        "        if False:\n",
        "tests/synthesis/test_exit.py::test_releases_of_before_that_tell_too_much_do_not_verify",
    ),
    one(
        "metadata of releases of before is not looked at",
        "synthesis/verify.py",
        "    if found is not None:\n",
        "    if False:\n",
        "tests/synthesis/test_exit.py::test_releases_of_before_that_tell_too_much_do_not_verify",
    ),
    Mutant(
        "metadata of the private table passed on",
        "synthesis/sets.py",
        (
            (
                "public.table(rows), seed).select(wanted)",
                "public.table(rows), seed).select(wanted)"
                ".replace_schema_metadata(next(iter(self.target.batches(names))).schema.metadata)",
            ),
        ),
        f"{BYTES}::test_no_metadata_of_the_private_table_is_released",
        (
            (
                "synthesis/exit.py",
                "return pa.schema([pa.field(f.name, kind) for f, kind in zip(schema, kinds, strict=True)])",
                "return pa.schema([pa.field(f.name, kind) for f, kind in zip(schema, kinds, strict=True)], schema.metadata)",
            ),
            ("synthesis/exit.py", "        store_schema=False,\n", ""),
            SAVED_AS_IT_IS,
        ),
    ),
    Mutant(
        "row groups cut where the private file was",
        "synthesis/sets.py",
        (
            (
                "            tables.append(labelled_table(model.labeller(), public.table(rows), seed).select(wanted))",
                "            made = labelled_table(model.labeller(), public.table(rows), seed).select(wanted)\n"
                "            cuts = np.cumsum([0, *(b.num_rows for b in self.target.batches(names))]).tolist()\n"
                "            tables.append(pa.concat_tables([made.slice(a, b - a) for a, b in zip(cuts, cuts[1:])]))",
            ),
        ),
        f"{BYTES}::test_labelled_releases_tell_no_order_in_either_format",
        (
            (
                "synthesis/exit.py",
                "        held = pa.concat_tables([held, _plain(piece, schema)])\n",
                "        yield from (pa.Table.from_batches([b]) for b in _plain(piece, schema).to_batches())\n"
                "        some = True\n",
            ),
        ),
    ),
    one(
        "the time on the card after reading",
        "synthesis/synthesize.py",
        "            start=start,\n",
        "            start=datetime.now(UTC),\n",
        f"{BYTES}::test_what_is_read_of_a_file_does_not_decide_the_time_on_the_card",
    ),
    one(
        "a clock in the archive of a model",
        "synthesis/exit.py",
        'ZipInfo(f"{name}.npy", _BEGINNING)',
        'ZipInfo(f"{name}.npy", datetime.now().timetuple()[:6])',
        f"{BYTES}::test_clock_user_host_locale_names_and_hash_seed_are_not_told",
    ),
    one(
        "files carry the time of their writing",
        "synthesis/exit.py",
        "        os.utime(path, (seconds, seconds))\n",
        "        pass\n",
        "tests/audit/test_channels.py::test_times_of_released_files_are_that_of_the_card",
    ),
    one(
        "rows beyond max_rows chosen by their position",
        "counting/units.py",
        "    order = np.lexsort([ranks[:, 0], group])\n",
        "    order = np.lexsort([over, group])\n",
        "tests/counting/test_counting_units.py::test_truncation_is_the_definition_in_any_order",
    ),
    one(
        "a private selection at the price of one run",
        "privacy/repetition.py",
        "        return PureDP.of_units(floor(budget.units / (2 + self.eta)))",
        "        return PureDP.of_units(floor(budget.units))",
        "tests/audit/test_replay.py::test_nothing_but_paid_answers_depends_on_one_unit_with_other_settings[selected/add-remove]",
    ),
    one(
        "models are unpickled",
        "synthesis/fitted.py",
        "with np.load(io.BytesIO(packed), allow_pickle=False) as held:",
        "with np.load(io.BytesIO(packed), allow_pickle=True) as held:",
        "tests/audit/test_hostile_files.py::test_a_pickled_array_is_never_unpickled",
    ),
    one(
        "an unexpected failure shows its traceback",
        "cli/failures.py",
        '    return Failure(f"unexpected failure ({type(error).__name__})", 1, unexpected=True)',
        '    return Failure(f"unexpected failure ({error})", 1, unexpected=True)',
        "tests/audit/test_canaries.py::test_an_unexpected_failure_names_nothing_private",
    ),
    one(
        "rows without a unit id form one unit",
        "counting/units.py",
        "    return pc.greater(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]",
        "    return np.ones(len(text), dtype=bool)",
        "tests/counting/test_counting_units.py::test_a_row_without_a_unit_is_counted_nowhere",
    ),
    one(
        "rows without a unit id form one unit inside an SQL engine",
        "counting/postgresql.py",
        "AS e WHERE {units[0]} <> '') AS h",
        "AS e) AS h",
        "tests/sources/test_sources_common.py::test_rows_without_a_unit_are_counted_nowhere_in_any_engine[postgresql]",
    ),
    one(
        "a date out of range is refused as damage",
        "sources/layout.py",
        "    return _validates(_bits(array))",
        "    return _validates(array)",
        "tests/sources/test_sources_values.py::test_what_is_refused_is_refused_without_rows_too[table]",
    ),
    one(
        "an object speaks for itself when it fails",
        "sources/arrow.py",
        "    except BaseException:  # noqa: BLE001  # code of the value's own, which may raise anything, SystemExit too\n        return None",
        "    except StopIteration:\n        return None",
        "tests/sources/test_sources_values.py::test_an_object_that_gives_no_text_is_missing",
    ),
    one(
        "errors carry the failures that they retell",
        "sources/retelling.py",
        "        error.__context__ = None",
        "        pass",
        "tests/sources/test_sources_values.py::test_no_error_carries_one_that_may_quote_a_value",
    ),
    one(
        "public rows are handed on in the order of the file",
        "counting/count.py",
        '        return distinct(self._blocks(attributes, "public"), self.schema, attributes)',
        '        codes = Codes.concatenate([*self._blocks(attributes, "public")])\n'
        "        return codes, np.ones(len(codes), dtype=np.int64)",
        "tests/counting/test_counting_order.py::test_no_answer_depends_on_order_chunks_or_layout",
    ),
    one(
        "a column's name with a backtick is written unescaped into a formula",
        "schema/formula/tree.py",
        '    if "`" not in name:\n        return f"`{name}`"\n',
        '    if True:\n        return f"`{name}`"\n',
        "tests/inference/test_hostile_formulas.py::test_any_name_is_one_column",
    ),
    one(
        "a formula may call any function",
        "regression/formula.py",
        "        if node.function not in FUNCTIONS:\n",
        "        if False:\n",
        "tests/inference/test_fit.py::test_formulas_that_are_refused",
    ),
    one(
        "a function in a formula is evaluated as Python",
        "regression/arithmetic.py",
        "            return _plain(FUNCTIONS[function](_number(argument, columns)))\n",
        "            return _plain(eval(spell(node), dict(FUNCTIONS), dict(columns)))\n",
        "tests/inference/test_hostile_formulas.py::test_no_name_of_a_column_compiles_runs_or_opens_anything",
    ),
    one(
        "cookie alone suffices",
        "studio/session.py",
        "        return all([_same(cookie, self.cookie), _same(page_token, self.page_token)])",
        "        return _same(cookie, self.cookie)",
        f"{STUDIO}/test_studio_gate.py::test_the_cookie_alone_opens_nothing_but_the_empty_shell",
    ),
    one(
        "script built by text",
        "studio/script.py",
        "        literal(title),\n",
        '        f\'"""{title}"""\',\n',
        f"{STUDIO}/test_studio_script.py::test_a_script_is_the_expected_calls_whatever_the_values_say",
    ),
    Mutant(
        "worker that imports from beside the data",
        "studio/jobs.py",
        (
            ('[sys.executable, "-P", "-m",', '[sys.executable, "-m",'),
            (
                '        cwd="/",\n        env=safe_environment(workspace.folder),\n',
                "        cwd=workspace.folder,\n",
            ),
        ),
        f"{STUDIO}/test_studio_jobs.py::test_a_job_runs_no_file_that_lies_beside_the_data",
    ),
    one(
        "spawned workers that import from beside the data",
        "processes.py",
        '    held = {"PYTHONSAFEPATH": "1"}\n',
        "    held: dict[str, str] = {}\n",
        "tests/cli/test_cli_hostile_folder.py::test_commands_import_nothing_from_the_current_folder",
    ),
    one(
        "token in the browser's arguments",
        "cli/studio.py",
        "args=(file.as_uri(),)",
        'args=(f"{made.address}#{made.session.token}",)',
        f"{STUDIO}/test_studio_strangers.py::test_no_process_names_the_token_and_the_browser_gets_in",
    ),
    one(
        "duration of a run told",
        "studio/jobs.py",
        '"out": self.asked.get("out", ""),',
        '"out": self.asked.get("out", ""), "seconds": time.time() - self.created,',
        f"{STUDIO}/test_studio_durations.py::test_no_answer_of_the_studio_tells_how_long_a_run_takes",
    ),
    one(
        "a release of before verifies though it tells the order of its file",
        "synthesis/verify.py",
        "        if not _has_lawful_dictionary(file, name, schema):\n",
        "        if False:\n",
        "tests/synthesis/test_exit.py::test_releases_of_before_that_tell_too_much_do_not_verify",
    ),
    one(
        "text that no encoding has is refused",
        "sources/arrow.py",
        '        return objects(column) if kind.storage == "python" else pa.array(column.array)',
        "        return pa.array(column.array)",
        f"{REPRODUCED}::test_9_no_value_decides_whether_a_run_succeeds[surrogate]",
    ),
    one(
        "run ends of views are handed on as they are",
        "sources/layout.py",
        "    return bool(extends or view or pa.types.is_run_end_encoded(kind))",
        "    return bool(extends or view)",
        f"{REPRODUCED}::test_9_no_value_decides_whether_a_run_succeeds[run-end encoded views]",
    ),
    one(
        "noise that forgets the weights",
        "schema/sums.py",
        "        return max(1, max(self.values), -min(self.values))",
        "        return 1",
        f"{PLANNED}[loglinear, planned/label]",
    ),
    Mutant(
        "labels adjusted to exact sums",
        "synthesis/planned.py",
        (
            (
                "        return Calibration(self.prepared, known, agenda.results(known))",
                "        exact = agenda.by_part(agenda.__dict__['exact'])\n"
                "        return Calibration(self.prepared, exact, agenda.results(known))",
            ),
        ),
        f"{PLANNED}[loglinear, planned by group/label]",
        also=EXACT_SUMS,
    ),
    Mutant(
        "results from exact sums",
        "synthesis/planned.py",
        (
            (
                "        return Calibration(self.prepared, known, agenda.results(known))",
                "        exact = agenda.by_part(agenda.__dict__['exact'])\n"
                "        return Calibration(self.prepared, known, agenda.results(exact))",
            ),
        ),
        f"{PLANNED}[forest, planned/label]",
        also=EXACT_SUMS,
    ),
    one(
        "weights from a private column",
        "synthesis/planned.py",
        "        kinds = public.only(first)\n",
        "        secret = [v for b in private.batches(schema.private) for v in b.column(0).to_pylist()]\n"
        "        place = np.where([v == 'M' for v in secret], 0, place)\n"
        "        kinds = public.only(first)\n",
        f"{PLANNED}[loglinear, planned/label]",
    ),
    one(
        "rows that carry results in the order of the file",
        "synthesis/sets.py",
        "recipe.stream.permutation(known)",
        "np.argsort(calibration.prepared.reading.public.order())",
        f"{BYTES}::test_results_and_labels_that_carry_them_tell_no_order_or_form[loglinear, planned/label-1 forms]",
    ),
    one(
        "time left on the terminal",
        "cli/terminal.py",
        "        TaskProgressColumn(),\n",
        '        TaskProgressColumn(),\n        __import__("rich.progress").progress.TimeRemainingColumn(),\n',
        f"{REPRODUCED}::test_10_the_terminal_does_not_tell_how_long_a_run_takes",
    ),
    one(
        "a fresh grant for the same file, unnoticed",
        "privacy/ledger.py",
        "        if known and not confirmed:\n",
        "        if False:\n",
        f"{REPRODUCED}::test_10_the_same_file_under_another_name_gets_no_fresh_grant_unnoticed",
    ),
    one(
        "a name that can be foreseen for files that are not yet whole",
        "synthesis/writing.py",
        "    os.close(handle)\n    work = Path(name)\n",
        "    os.close(handle)\n    Path(name).unlink()\n"
        '    work = target.absolute().with_name(f".{target.name}.{os.getpid()}.partial")\n',
        f"{REPRODUCED}::test_10_no_file_is_written_through_a_link_that_lies_ready",
    ),
    one(
        "the log of --debug through a link",
        "cli/main.py",
        '    handle, path = tempfile.mkstemp(prefix=DEBUG_LOG, suffix=".log", dir=Path.cwd())\n',
        '    path = f"{DEBUG_LOG[:-1]}.log"\n'
        "    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)\n",
        f"{REPRODUCED}::test_10_no_file_is_written_through_a_link_that_lies_ready",
    ),
    one(
        "poll: one vote where a replaced unit moves two",
        "privacy/value_question.py",
        '    votes = 2 if check_relation(relation) == "replace" else 1\n',
        "    votes = len({check_relation(relation)})\n",
        f"{POLL}::test_one_unit_moves_the_numbers_no_further_than_the_sensitivity",
    ),
    one(
        "poll: parts by places in the file",
        "counting/parts.py",
        "    order = np.lexsort([np.zeros(values.rows), *content.T[::-1]])\n",
        "    order = np.arange(values.rows)\n",
        f"{PARTS}::test_the_order_of_the_file_decides_nothing",
    ),
    one(
        "poll: copies of a row share a name",
        "counting/parts.py",
        "        return rank[:, None]\n",
        "        return content\n",
        f"{PARTS}::test_a_changed_label_costs_no_more_than_one_vote_in_law",
    ),
    one(
        "poll: copies are not numbered",
        "counting/parts.py",
        "    return np.column_stack([content, rank - np.repeat(starts, np.diff(starts, append=len(content)))])\n",
        "    return np.column_stack([content, np.repeat(starts, np.diff(starts, append=len(content))) * 0])\n",
        f"{PARTS}::test_every_row_has_a_name_of_its_own",
    ),
    one(
        "poll: one key for all polls",
        "privacy/value_question.py",
        'stream.new_seed("key")',
        'b"key"',
        f"{POLL}::test_every_poll_draws_a_key_of_its_own",
    ),
    one(
        "poll: a default that depends on rows",
        "privacy/value_question.py",
        "            found[default_answer(number, vote.answers) if",
        "            found[default_answer(rows.total(), vote.answers) if",
        f"{POLL}::test_a_vote_that_fails_is_a_default_without_a_word",
    ),
    one(
        "poll: a failing part is heard",
        "privacy/value_question.py",
        "    except Exception:  # noqa: BLE001 - a failure that depends on rows must not be seen\n        return None\n",
        "    except MemoryError:\n        return None\n",
        f"{POLL}::test_a_vote_that_fails_is_a_default_without_a_word",
    ),
    one(
        "poll: half of the noise",
        "privacy/value_question.py",
        "        return price_counts(self.cells, sensitivity,",
        "        return price_counts(self.cells, sensitivity / 2,",
        f"{POLL}::test_the_noise_is_that_of_the_sensitivity_and_is_recorded_first",
    ),
    Mutant(
        "answer: hardly charged",
        "confirm/confirm.py",
        (
            (
                "                asked.budget,\n                protects",
                "                asked.budget.split(1000)[0],\n                protects",
            ),
            ("stream=stream, journal=reservation, ", "stream=stream, journal=Rehearsal(), "),
        ),
        f"{ASKED}.py::test_a_claim_that_holds_is_confirmed_and_charged_once",
    ),
    one(
        "answer: the verdict as an exit code",
        "cli/confirm.py",
        '    verb = "Answered before',
        '    if found.answer.verdict == "contradicted":\n        raise typer.Exit(1)\n    verb = "Answered before',
        f"{ASKED}_cli.py::test_every_verdict_ends_alike",
    ),
    one(
        "answer: any signature will do",
        "confirm/answer.py",
        " or not signed.valid(answer.signer):\n",
        ":\n",
        "tests/confirm/test_answer_signature.py::test_a_spoiled_signature_is_none",
    ),
    one(
        "answer: a signature of another card",
        "confirm/answer.py",
        " or signed.content != content or not",
        " or not",
        "tests/confirm/test_answer_signature.py::test_a_changed_card_breaks_the_signature",
    ),
    one(
        "a label that does not change drawn for each row",
        "synthesis/careers.py",
        "        fixed = tuple(n for n in targets if schema[n].fixed)\n",
        "        fixed = ()\n",
        f"{CAREERS}::test_every_unit_keeps_its_labels_in_every_set[forest]",
    ),
    one(
        "units numbered as the file has them",
        "synthesis/sets.py",
        "careers.numbers(recipe.stream.permutation(careers.units))",
        "careers.numbers(np.argsort(np.argsort(careers.order[careers.starts])))",
        f"{CAREERS}::test_bytes_know_neither_the_order_of_the_file_nor_what_units_are_called[plain]",
    ),
    one(
        "units in the order of their names",
        "synthesis/careers.py",
        "rows[np.lexsort(kinds[rows].T[::-1])].ravel()",
        "rows.ravel()",
        f"{CAREERS}::test_bytes_know_neither_the_order_of_the_file_nor_what_units_are_called[plain]",
    ),
    one(
        "learned levels without threshold",
        "privacy/discovery.py",
        "            told = np.flatnonzero(noisy >= threshold)\n",
        "            told = np.flatnonzero(noisy >= 1)\n",
        f"{LEARN}::test_values_of_one_unit_are_never_told",
    ),
    one(
        "survey priced as one histogram",
        "privacy/discovery.py",
        "        sensitivity = len(self.tables) * sensitivity_for(",
        "        sensitivity = sensitivity_for(",
        f"{LEARN}::test_one_unit_moves_a_survey_no_further[None-add-remove]",
    ),
    Mutant(
        "learned bounds from exact counts",
        "privacy/discovery.py",
        (
            (
                "        return found\n\n    def apart",
                "        self.__dict__['leak'] = found\n        return found\n\n    def apart",
            ),
            (
                "        return np.split(counts, self._starts()[1:-1])",
                "        return np.split(self.leak, self._starts()[1:-1])",
            ),
        ),
        f"{LEARN}::test_the_draft_is_a_function_of_noisy_answers",
    ),
    one(
        "a value's own rows above the threshold",
        "privacy/discovery.py",
        "            threshold=max_rows + _gap(law, scale, each),",
        "            threshold=_gap(law, scale, each),",
        f"{LEARN}::test_a_threshold_too_low_for_its_delta_is_refused[add-remove-budget0]",
    ),
    one(
        "a row in a place and in the next one",
        "counting/steps.py",
        '            yield coarse.take(rows_in(coarse, "held", self._fixed_codes)) if self._fixed_codes else coarse\n',
        "            yield Codes.concatenate([coarse, coarse])\n",
        "tests/counting/test_coarse_rows.py::test_one_row_moves_one_count_of_every_table_by_place",
    ),
    one(
        "a step beside the row of another unit",
        "schema/steps.py",
        "    same = np.append(False, units[1:] == units[:-1]) if len(units) else np.zeros(0, dtype=bool)\n",
        "    same = np.append(False, np.ones(len(units) - 1, dtype=bool)) if len(units) else np.zeros(0, dtype=bool)\n",
        f"{PANELS}::test_whoever_joins_changes_every_table_by_at_most_max_rows_and_entries_by_one",
    ),
    one(
        "half the noise on sums by two labels",
        "privacy/noisy_table.py",
        "exact.reshape(groups, 2)[occupied, 1] + noise.sample(stream, int(occupied.sum()))",
        "exact.reshape(groups, 2)[occupied, 1] + noise.sample(stream, int(occupied.sum())) // 2",
        SUMS_NOISE,
    ),
    one(
        "half the noise on sums by several labels",
        "privacy/noisy_table.py",
        "        values[occupied] = exact.reshape(groups, labels)[occupied] + drawn\n",
        "        values[occupied] = exact.reshape(groups, labels)[occupied] + drawn // 2\n",
        SUMS_NOISE,
    ),
    one(
        "noise of weighted sums calibrated to one row's count",
        "privacy/calibration.py",
        "    heaviest = cells.heaviest if isinstance(cells, WeightedSums | WeightTotals) else 1\n",
        "    heaviest = cells.heaviest if isinstance(cells, WeightTotals) else 1\n",
        SUMS_NOISE,
    ),
    one(
        "labels decide which public values of a unit count",
        "counting/units.py",
        "    order = np.lexsort([*hidden, *shown, *tied, *kinds, *reversed(fuse(codes, hashed)), group])\n",
        "    order = np.lexsort([*hidden, *shown, *kinds, *tied, *reversed(fuse(codes, hashed)), group])\n",
        "tests/analyses/test_weighted_sums.py::test_labels_do_not_decide_which_kinds_of_rows_count",
    ),
    one(
        "an engine is asked for rows at every pass",
        "counting/encoded.py",
        "        self._source = FetchedRows.of(source, schema.columns)\n",
        "        self._source = source\n",
        "tests/sources/test_sources_planned.py::test_a_row_is_counted_by_one_reading",
    ),
    one(
        "weights of rows in the order of an earlier reading",
        "synthesis/planned.py",
        "        reading = reading.reread_to_count(curator.schema)\n",
        "",
        "tests/sources/test_sources_planned.py::test_rows_in_another_order_at_every_reading",
    ),
    one(
        "noise of weighted totals by one row's count",
        "privacy/calibration.py",
        "    heaviest = cells.heaviest if isinstance(cells, WeightedSums | WeightTotals) else 1\n",
        "    heaviest = cells.heaviest if isinstance(cells, WeightedSums) else 1\n",
        "tests/privacy/test_weight_question.py::test_noise_is_what_the_price_asks_for",
    ),
    one(
        "several rows of a unit in one period",
        "counting/steps.py",
        "    rows, units = rows.take(first), units[first]\n",
        "",
        "tests/counting/test_panel_rows.py::test_a_unit_has_one_row_in_a_period",
    ),
    one(
        "an entry of a unit for every time it returns",
        "schema/steps.py",
        "    starts = np.flatnonzero(steps[ARRIVAL] == FIRST)\n",
        "    starts = np.flatnonzero(steps[ARRIVAL] != HERE)\n",
        f"{PANELS}::test_whoever_joins_changes_every_table_by_at_most_max_rows_and_entries_by_one",
    ),
    one(
        "steps at the price of entries",
        "schema/steps.py",
        "    unit = replace(schema.unit, max_rows=most, order=None)\n",
        "    unit = replace(schema.unit, max_rows=1, order=None)\n",
        "tests/methods/graph/test_career_model.py::test_a_whole_career_is_protected_and_the_budget_spent",
    ),
    one(
        "growth of a unit without a bound",
        "schema/growth.py",
        "            np.clip(np.rint(products / b), -FINER * WHOLE, FINER * WHOLE).astype(np.int64),\n",
        "            np.rint(products / b).astype(np.int64),\n",
        "tests/privacy/test_growth_question.py::test_no_unit_moves_the_sums_farther",
    ),
    one(
        "growth under replace at the price of add-remove",
        "schema/growth.py",
        '"replace": (1, 2 * FINER)}\n',
        '"replace": (1, FINER)}\n',
        "tests/privacy/test_growth_question.py::test_no_unit_moves_the_sums_farther",
    ),
    one(
        "what a unit differs by without a bound",
        "schema/growth.py",
        "        return (np.clip(np.rint(away / self.steps[0]), 0, WHOLE).astype(np.int64),)\n",
        "        return (np.rint(away / self.steps[0]).astype(np.int64),)\n",
        "tests/privacy/test_growth_question.py::test_no_unit_moves_the_spread_farther",
    ),
    one(
        "periods of one unit for those of another",
        "schema/steps.py",
        "    begins = np.repeat(starts, lengths)\n",
        "    begins = np.repeat(starts, lengths)[::-1]\n",
        f"{PANELS}::test_presence_is_where_a_unit_is_after_its_first_period_up_to_its_last",
    ),
    one(
        "presence of a unit in one period more than is paid for",
        "counting/steps.py",
        "drawn_steps(opens, self._hashes[begins], periods, schema.unit.max_rows)",
        "drawn_steps(opens, self._hashes[begins], periods, schema.unit.max_rows + 1)",
        f"{PANELS}::test_whoever_joins_changes_every_table_by_at_most_max_rows_and_entries_by_one",
    ),
    one(
        "the number of units for free",
        "counting/steps.py",
        "entries_of(self.codes, panel)), lambda: None)\n",
        "entries_of(self.codes, panel)), lambda: len(self.codes))\n",
        f"{PANELS}::test_how_many_units_there_are_is_not_told_for_free",
    ),
    one(
        "a step more of each unit than is paid for",
        "counting/steps.py",
        "    return np.asarray(rank < most)\n",
        "    return np.asarray(rank <= most)\n",
        f"{PANELS}::test_whoever_joins_changes_every_table_by_at_most_max_rows_and_entries_by_one",
    ),
    one(
        "which steps of a unit count depends on the units before it",
        "counting/steps.py",
        "    by = np.lexsort([x ^ (x >> np.uint64(31)), unit])\n",
        "    by = np.lexsort([(x ^ (x >> np.uint64(31))) * unit.astype(np.uint64), unit])\n",
        f"{PANELS}::test_whoever_joins_changes_every_table_by_at_most_max_rows_and_entries_by_one",
    ),
    one(
        "the number of steps that count for free",
        "counting/steps.py",
        "replace(self._some(most), schema=schema), lambda: None)\n",
        "replace(self._some(most), schema=schema), lambda: len(self._some(most)))\n",
        f"{PANELS}::test_some_steps_know_the_period_before_and_none_is_drawn_more_often",
    ),
    one(
        "the number of rows for free where there is one period",
        "counting/steps.py",
        "self._arrange, total if panel.unit.max_rows == 1 else lambda: None)\n",
        "self._arrange, total)\n",
        "tests/methods/graph/test_career_model.py::test_one_period_does_not_make_the_number_of_rows_public",
    ),
    one(
        "lawful rows of a panel as the public number of rows",
        "counting/count.py",
        "        return self._total()\n",
        "        return len(self.codes)\n",
        "tests/methods/graph/test_career_model.py::test_how_many_rows_break_a_rule_is_not_told_for_free",
    ),
    one(
        "members that the ledger does not know again",
        "synthesis/synthesize.py",
        "also=[] if of_members is None else [of_members],\n",
        "also=[],\n",
        "tests/synthesis/test_household_release.py::test_either_table_under_another_name_must_be_confirmed",
    ),
    one(
        "an orphan among the members of another household",
        "counting/households.py",
        "        at = pc.index_in(theirs, value_set=names)\n",
        "        at = pc.fill_null(pc.index_in(theirs, value_set=names), 0)\n",
        f"{HOUSEHOLDS}::test_brute_force_a_household_has_one_line",
    ),
    Mutant(
        "a household listed twice has two lines",
        "counting/households.py",
        (
            ("from dataclasses import dataclass\n", "from dataclasses import dataclass, replace\n"),
            (
                "        super().__init__(households, schema, key, progress=progress)\n",
                "        super().__init__(households, replace(schema, unit=replace(schema.unit, max_rows=9)), key, progress=progress)\n",
            ),
        ),
        f"{HOUSEHOLDS}::test_brute_force_a_household_has_one_line",
    ),
    Mutant(
        "members beyond the cap",
        "counting/households.py",
        (
            ("from dataclasses import dataclass\n", "from dataclasses import dataclass, replace\n"),
            (
                "        self._people = BatchRows(members, members_of(schema).schema, key)\n",
                "        people = members_of(schema).schema\n"
                "        self._people = BatchRows(members, replace(people, unit=replace(people.unit, max_rows=99)), key)\n",
            ),
        ),
        f"{HOUSEHOLDS}::test_caps_are_exact_and_a_second_head_counts_nowhere",
    ),
    one(
        "keys and codes of an engine's rows from two passes",
        "counting/encoded.py",
        "        self._source = FetchedRows.of(source, schema.columns)\n",
        "        self._source = source\n",
        "tests/synthesis/test_household_release.py::test_rows_of_an_engine_are_read_once",
    ),
    one(
        "a member chosen by its place in the file",
        "counting/households.py",
        'names[i], b"member"',
        'b"%d" % i, b"member"',
        f"{HOUSEHOLDS}::test_the_order_of_the_files_does_not_matter",
    ),
    one(
        "values within bins shared by a household",
        "codec/decode.py",
        "    units = codes.units if codes.schema.unit.order is not None else None",
        "    units = codes.units",
        "tests/synthesis/test_household_release.py::test_members_lie_at_places_of_their_own_within_bins",
    ),
    one(
        "a person at the price of a household",
        "schema/schema.py",
        '        return "replace" if self.unit.protects == "person" else self.neighbours\n',
        "        return self.neighbours\n",
        "tests/methods/graph/test_household_model.py::test_persons_pay_for_a_line_that_takes_the_place_of_another",
    ),
    one(
        "the number of households told where persons are protected",
        "privacy/curator.py",
        'self.relation == self.schema.neighbours == "replace" and self.max_rows == 1',
        'self.relation == "replace" and self.max_rows == 1',
        "tests/methods/graph/test_household_model.py::test_persons_do_not_tell_how_many_households_there_are",
    ),
    one(
        "weights of members at the price of one",
        "privacy/value_question.py",
        "        k = max(max_rows, self.cells.schema.priced_rows)\n",
        "        k = max_rows\n",
        f"{HOUSEHOLDS}::test_brute_force_weights_of_members",
    ),
)
