"""Searches better settings of a configuration: see "Search for settings" in the README of this package's folder."""

import argparse
import contextlib
import csv
import ctypes
import dataclasses
import fcntl
import json
import logging
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import typing
import warnings

from ._library import Error, InvalidError
from .programs import program, run

__all__ = ["Tuned", "tune"]

_WAIT_SECONDS = 0.1  # Between two looks at the running trials.
_STOP_SECONDS = 60  # A training that is stopped saves its model.
_MOST_FAILURES = 5  # Trials that fail before any succeeds.


class Tuned(typing.NamedTuple):
    """The result of a search."""

    settings: dict  # Name of a parameter -> its best value, of those that differ from the configuration.
    metric: float  # Of data.validation, with the best settings.
    before: float  # The same with the configuration's own settings; NaN if that trial failed.
    trial: int  # Number of the best trial.
    config: pathlib.Path  # The best configuration.
    model: pathlib.Path  # Its model.


def _optuna():
    try:
        import optuna
        import yaml  # noqa: F401  Optuna requires it.
    except ImportError as error:
        raise InvalidError(f"tune needs Optuna, which {sys.executable} does not have ({error}); pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.captureWarnings(False)
    return optuna


def _storage(optuna, path):
    """Opens the journal of a search. Requires the lock of its folder."""
    pathlib.Path(f"{path}.lock").unlink(missing_ok=True)  # Left by a process that was killed.
    if path.exists():
        with open(path, "r+b") as file:  # A line that was cut off.
            text = file.read()
            file.truncate(text.rfind(b"\n") + 1)
    try:
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
    except ImportError:  # Before 4.0.
        from optuna.storages import JournalFileOpenLock
        from optuna.storages import JournalFileStorage as JournalFileBackend
    return optuna.storages.JournalStorage(JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path))))


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_parent():
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclasses.dataclass
class _Running:
    """A trial whose training runs."""

    trial: object
    process: subprocess.Popen
    log: pathlib.Path
    history: pathlib.Path
    begin: float
    read: int = 0  # Bytes of the history.
    values: list = dataclasses.field(default_factory=list)  # The best value after each evaluation.


class Search:
    """A search for settings in a folder."""

    def __init__(self, config, *, trials, minutes, jobs, seed, output, settings, say):
        for name, value in (("trials", trials), ("jobs", jobs)):
            if value < 1:
                raise InvalidError(f"--{name} {value} is out of range; use 1 or more")
        if minutes is not None and not minutes > 0:
            raise InvalidError(f"--minutes {minutes:g} is out of range; use a number above 0")
        self._optuna = _optuna()
        from ._document import Document
        from ._space import Settings, default_space, given_space

        self.config = pathlib.Path(config)
        self.folder = pathlib.Path(output) if output else self.config.with_name(self.config.stem + "-tune")
        self._most, self._jobs, self._say = trials, jobs, say
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self._known = self._check(self.config, settings)
        text = self.config.read_text(encoding="utf-8")
        document = Document(text)
        for override in settings:
            document.set(*override.split("=", 1))
        schema = json.loads(run("schema"))
        given = document.copy()
        self._open_folder()
        try:
            document.move(self.config.absolute().parent, self.folder.absolute(), schema)
            if not self._known["evaluates"]:
                document.set("training.evaluate_every_epochs", "1")
            space = Settings(document, self._known, schema)
            self.parameters = given_space(document, space, self._check_settings) or default_space(document, space, self._accepts)
            document.remove("tune")
            self._document = document
            self._open_study(given, seed)
        except BaseException:
            self.close()
            raise

    @property
    def larger_is_better(self):
        return self._known["larger_is_better"]

    @property
    def metric(self):
        return self._known["metric"]

    def close(self):
        self._lock.close()

    def _check(self, config, settings):
        """Returns what is known of the configuration. Errors: InvalidError with a remedy."""
        words = [word for override in settings for word in ("--set", override)]
        known = json.loads(run("tune", config, "--describe", *words))
        if known["streams"]:
            raise InvalidError(f"{config}: trains on a stream, whose rows cannot be read again; write rows into files and use data.train")
        if not known["has_validation"]:
            raise InvalidError(
                f"{config}: data.validation is missing; trials are compared by its rows. Name files of rows that data.train "
                "does not have, as `simurgh init` does"
            )
        if known["ranks"] > 1 or known["loaders"] > 0:
            raise InvalidError(
                f"{config}: has {known['ranks']} nn-workers and {known['loaders']} loaders; a trial is one process. "
                "Use --set 'nn_worker.instances=[{}]' --set 'loaders.instances=[]'"
            )
        return known

    def _check_settings(self, document):
        """Errors: InvalidError, if trials could not have these settings."""
        path = self.folder / "check.yaml"
        document.write(path, "A check of settings.")
        try:
            run("tune", path, "--describe")
        finally:
            path.unlink()

    def _accepts(self, document):
        try:
            self._check_settings(document)
        except InvalidError:
            return False
        return True

    def _open_folder(self):
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            others = [path.name for path in self.folder.iterdir() if path.name != "lock"]
            if others and "journal.log" not in others:
                raise InvalidError(f"{self.folder}: has files that are not of a search, such as {min(others)}; use another --output")
            self._lock = open(self.folder / "lock", "w")  # noqa: SIM115
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidError(f"{self.folder}: another search runs there; wait for its end, or use another --output") from None
        except OSError as error:
            raise InvalidError(f"{self.folder}: {error.strerror}; use another --output") from None

    def _open_study(self, given, seed):
        optuna = self._optuna
        study = optuna.create_study(
            storage=_storage(optuna, self.folder / "journal.log"),
            study_name="tune",
            load_if_exists=True,
            direction="maximize" if self.larger_is_better else "minimize",
            pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=2),
        )
        done = len(study.trials)
        # A sampler that starts again must not repeat its proposals.
        study.sampler = optuna.samplers.TPESampler(seed=seed + done, n_startup_trials=min(10, max(4, self._most // 3)))
        description = {**given.leaves(), **{f"parameter {one.name}": one.describe() for one in self.parameters}}
        before = study.user_attrs.get("configuration")
        if before is None:
            study.set_user_attr("configuration", description)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                study.enqueue_trial({one.name: one.own for one in self.parameters})
        elif before != description:
            keys = sorted(key for key in {*before, *description} if before.get(key) != description.get(key))
            raise InvalidError(
                f"{self.folder}: has a search of another configuration: {keys[0]} was {before.get(keys[0], 'missing')}, and is "
                f"{description.get(keys[0], 'missing')}; use another --output, or remove the folder"
            )
        self.study = study
        # A search that was killed has left running trials. Each goes on with its settings, and its model.
        self._left = [optuna.trial.Trial(study, one._trial_id) for one in self.trials("RUNNING")]

    def trials(self, *states):
        """Returns the trials in these states: COMPLETE, PRUNED, FAIL or RUNNING."""
        return self.study.get_trials(deepcopy=False, states=[self._optuna.trial.TrialState[state] for state in states])

    @property
    def best(self):
        """The best trial; None if none has been trained to its end. Of equal ones the first."""
        done = self.trials("COMPLETE")
        sign = -1 if self.larger_is_better else 1
        return min(done, key=lambda one: (sign * one.value, one.number), default=None)

    def values_of(self, trial):
        """Returns the values of a trial that differ from the configuration's, as texts by name."""
        if trial.number == 0:
            return {}
        return {
            one.name: one.show(self._rounded(one, trial.params[one.name]))
            for one in self.parameters
            if one.name in trial.params and trial.params[one.name] != one.own
        }

    @staticmethod
    def _rounded(parameter, value):
        return float(f"{value:.4g}") if isinstance(value, float) and parameter.choices is None else value

    # --- Trials.

    def run(self):
        """Runs trials until their number or the time is reached."""
        running = []
        self._began = time.monotonic()
        self._before = len(self.trials("COMPLETE", "PRUNED", "FAIL"))
        try:
            while True:
                while len(running) < self._jobs and self._may_start(running):
                    running.append(self._start())
                if not running:
                    return
                if self._is_late() and self.best is not None:
                    return
                time.sleep(_WAIT_SECONDS)
                for one in list(running):
                    if self._look(one):
                        running.remove(one)
        finally:
            for one in running:
                self._stop(one)

    def _is_late(self):
        return self._end is not None and time.monotonic() > self._end

    def _may_start(self, running):
        if self._is_late() and (running or self.best is not None):
            return False
        done = self.trials("COMPLETE", "PRUNED", "FAIL")
        failed = self.trials("FAIL")
        if len(failed) == len(done) and len(failed) >= min(_MOST_FAILURES, self._most):
            return False
        return bool(self._left) or len(done) + len(running) < self._most

    def _folder_of(self, number):
        return self.folder / f"trial-{number}"

    def _threads(self):
        """Returns overrides that keep the threads of all jobs together within the processors."""
        if self._jobs == 1:
            return []
        share = max(1, len(os.sched_getaffinity(0)) // self._jobs)
        return [f"{key}={min(share, self._known['threads'][key])}" for key in self._known["threads"]]

    def _start(self):
        trial = self._left.pop(0) if self._left else self.study.ask()
        document = self._document.copy()
        for one in self.parameters:
            value = one.suggest(trial)
            if trial.number > 0 and value != one.own:
                one.apply(document, value)
        folder = self._folder_of(trial.number)
        document.set("checkpoint.directory", folder.name)
        config = folder.with_suffix(".yaml")
        document.write(config, f"Trial {trial.number} of a search for settings in {self.config.name}.")
        # Metrics need no port, and the test rows choose nothing.
        overrides = ["nn_worker.instances=[{}]", "data.test=[]", *self._threads()]
        words = [word for override in overrides for word in ("--set", override)]
        log = folder.with_suffix(".log")
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [program(), "train", str(config), "--standalone", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C of the terminal is for the search.
                preexec_fn=_end_with_parent,
            )
        return _Running(trial, process, log, folder / "history.jsonl", time.monotonic())

    def _read(self, one):
        """Reads the evaluations that a training has had since the last look."""
        with contextlib.suppress(FileNotFoundError), open(one.history, "rb") as file:
            file.seek(one.read)
            text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            one.read += len(whole)
            for line in whole.splitlines():
                event = json.loads(line)
                value = event.get(self.metric)
                if event["event"] != "validation" or value is None:
                    continue
                best = max if self.larger_is_better else min
                one.values.append(best([value, *one.values[-1:]]))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # A trial that goes on has reported its first evaluations.
                    one.trial.report(one.values[-1], len(one.values))

    def _look(self, one):
        """Reads what a trial has done. Returns whether it has ended."""
        code = one.process.poll()
        seen = len(one.values)
        self._read(one)
        State = self._optuna.trial.TrialState
        if code is None:
            if len(one.values) == seen or one.trial.number == 0 or not one.trial.should_prune():
                return False
            self._stop(one)
            self._tell(one, State.PRUNED)
        elif code == 0 and one.values:
            self._tell(one, State.COMPLETE, one.values[-1])
        else:
            reason = self._reason(one, code)
            one.trial.set_user_attr("reason", reason)
            self._tell(one, State.FAIL)
        return True

    def _reason(self, one, code):
        lines = one.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if code == 0:
            return "no evaluation has a finite value; look at training.max_steps and the learning rates"
        errors = [line for line in lines if line.startswith("simurgh: ") or " error " in line or " critical " in line]
        line = (errors or lines or [f"simurgh train ended with code {code}"])[-1]
        return re.sub(r"^\S+ (error|critical) +\S+ \S+: (failed: )?([A-Z_]+: )?", "", line)

    def _tell(self, one, state, value=None):
        before = self.best
        one.trial.set_user_attr("seconds", round(time.monotonic() - one.begin, 1))
        self.study.tell(one.trial, value, state=state)
        best = self.best
        for trial in {one.trial.number, *([before.number] if before else [])} - {best.number if best else -1}:
            shutil.rmtree(self._folder_of(trial), ignore_errors=True)
        if state.name != "FAIL":
            one.log.unlink(missing_ok=True)
        self._report(one, state, best)

    def _report(self, one, state, best):
        number = one.trial.number
        done = len(self.trials("COMPLETE", "PRUNED", "FAIL"))
        value = f"{self.metric}={one.values[-1]:.5f}" if one.values else "no evaluation"
        if state.name == "PRUNED":
            value += f", ended after {len(one.values)} evaluation{'s' if len(one.values) > 1 else ''}"
        if state.name == "FAIL":
            value = f"failed: {one.trial.user_attrs['reason']}"
        changed = self.values_of(self.study.trials[number]) or {"settings": "as written"}
        words = [f"trial {number}: {value}; " + " ".join(f"{name}={text}" for name, text in changed.items())]
        if best is not None:
            words.append(f"best {best.value:.5f} of trial {best.number}")
        spent = time.monotonic() - self._began
        left = (self._most - done) * spent / max(1, done - self._before)
        if self._end is not None:
            left = min(left, max(0, self._end - time.monotonic()))
        words.append(f"{done} of {self._most} done" + (f", about {_time_text(left)} left" if done < self._most else ""))
        self._say("; ".join(words))

    def _stop(self, one):
        """Ends a training. Its model stays."""
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                one.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(_STOP_SECONDS)
                return

    # --- Results.

    def finish(self):
        """Writes the results. Returns a Tuned."""
        best = self.best
        if best is None:
            failed = self.trials("FAIL")
            if failed:
                log = self._folder_of(failed[0].number).with_suffix(".log")
                raise Error(f"all {len(failed)} trials failed; the first one: {failed[0].user_attrs['reason']}; {log} has more")
            raise Error(f"{self.folder}: no trial was trained to its end; give more --trials or --minutes")
        # A search that was killed may have ended a trial without the removal of its model.
        for number in {trial.number for trial in self.study.trials} - {best.number}:
            shutil.rmtree(self._folder_of(number), ignore_errors=True)
        from ._document import Document
        from ._tune_page import page

        config = self.folder / "best.yaml"
        document = Document(self._folder_of(best.number).with_suffix(".yaml").read_text(encoding="utf-8"))
        document.set("checkpoint.directory", "best-model")
        document.write(config, f"The best settings of {len(self.study.trials)} trials of {self.config.name}.")
        self._write_table()
        (self.folder / "report.html").write_text(page(self), encoding="utf-8")
        first = self.study.trials[0]
        before = first.value if first.state.name == "COMPLETE" else float("nan")
        return Tuned(self.values_of(best), best.value, before, best.number, config, self._folder_of(best.number))

    def _write_table(self):
        path = self.folder / "trials.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["trial", "state", self.metric, "evaluations", "seconds", *(one.name for one in self.parameters)])
            for trial in self.study.trials:
                values = [
                    one.show(self._rounded(one, trial.params[one.name])) if one.name in trial.params else "" for one in self.parameters
                ]
                value = last_value(trial)
                writer.writerow([
                    trial.number, trial.state.name.lower(), "" if value is None else repr(value),
                    len(trial.intermediate_values), trial.user_attrs.get("seconds", ""), *values,
                ])


def last_value(trial):
    """Returns the best value that a trial had; None without an evaluation."""
    values = trial.intermediate_values
    return values[max(values)] if values else None


def _time_text(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"


def tune(config, *, trials=30, minutes=None, jobs=1, seed=1, output=None, settings=None, quiet=True):
    """Searches better settings of a configuration, as `simurgh tune`. Returns a Tuned.

    config: path of a YAML file with data.validation. trials: trainings in all, those of earlier calls with this output
    included. minutes: the most time of this call; None: no limit. jobs: trials at once. output: the folder; None: beside
    config, with its name and -tune. settings: keys of the configuration to override in all trials. quiet: False shows a
    line for each trial on stderr. Requires Optuna.
    Errors: InvalidError for a bad configuration, arguments, or a folder of another search; Error if all trials fail.
    KeyboardInterrupt ends the trainings; the same call continues them.
    """
    overrides = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]

    def say(text):
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    search = Search(config, trials=trials, minutes=minutes, jobs=jobs, seed=seed, output=output, settings=overrides, say=say)
    try:
        search.run()
        return search.finish()
    finally:
        search.close()


def _arguments(words):
    parser = argparse.ArgumentParser(prog="simurgh tune", add_help=False, allow_abbrev=False)
    parser.add_argument("config")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    return parser.parse_args(words)


def main(words):
    """The command `simurgh tune`. Ends the process."""
    given = _arguments(words)

    def say(text):
        print(f"simurgh: {text}", file=sys.stderr, flush=True)

    def interrupt(*_):
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    search = None
    try:
        options = {name: value for name, value in vars(given).items() if name != "config"}
        search = Search(given.config, say=say, **options)
        say(f"{len(search.parameters)} parameters: {', '.join(one.name for one in search.parameters)}")
        is_interrupted = False
        try:
            search.run()
        except KeyboardInterrupt:
            is_interrupted = True
            if search.best is None:
                raise
        result = search.finish()
        _print(search, result, say)
        if is_interrupted:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        if search is not None:
            done = len(search.trials("COMPLETE", "PRUNED", "FAIL"))
            command = shlex.join(["simurgh", "tune", *words])
            say(f"interrupted; {search.folder} keeps {done} trials; continue them: {command}")
        sys.exit(130)
    except Error as error:
        say(str(error).removeprefix("simurgh: "))
        sys.exit(2 if isinstance(error, InvalidError) else 3)
    sys.exit(0)


def _print(search, result, say):
    counts = {state: len(search.trials(state)) for state in ("COMPLETE", "PRUNED", "FAIL")}
    name = f"validation_{search.metric}"
    print(
        f"{name}={result.metric:.5f} before_{name}={result.before:.5f} best_trial={result.trial} "
        f"trials={sum(counts.values())} pruned={counts['PRUNED']} failed={counts['FAIL']}",
        flush=True,
    )
    changed = " ".join(f"{key}={value}" for key, value in result.settings.items())
    say(f"best settings: {changed or 'those of the configuration'}")
    say(f"best model: {result.model}; trials: {search.folder / 'report.html'}, {search.folder / 'trials.csv'}")
    say(f"train it with the validation rows, too: simurgh train {shlex.quote(str(result.config))} --refit")
