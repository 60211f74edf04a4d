"""An administrator of access: adds and removes rules and users through any broker, and has a user
ask what these rules come to.

    a round    a user, then a few changes; after each the user asks the same broker, and the
               administrator reads what is there
    judged     an answer between two answers on the administrator's connection, after a change that
               was acknowledged there: exactly; any other: some prefix of the changes explains it

Half of the rounds leave their rules and users behind: the auditor looks for them at the end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from penstock.access.rules import AclPattern, Rule
from penstock.access.sasl import BY_PASSWORD
from penstock.access.scram import ITERATIONS_MIN, SALT_BYTES, salted_password
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.access.drawing import (
    Filter,
    Names,
    draw_filter,
    draw_rule,
    exactly,
)
from simulator.clients.access.login import Believed, NotLetIn, Who
from simulator.clients.access.questions import Asker, Told, ask_some
from simulator.clients.access.session import Session
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, pause
from simulator.history.access import Book, Passwords
from simulator.run.topology import ROOT, ROOTS_PASSWORD

SCRAM = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
CHANGES = (2, 6)
RULES = (1, 1, 2, 3)
QUESTIONS = (3, 6)
WRONG_SHARE = 0.3
LEFT_SHARE = 0.5
REST_SECONDS = (0.2, 0.9)
NOT_DONE = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.RESOURCE_NOT_FOUND})
"""Nothing was changed: the level of the metadata has no rules, there is no such user."""
REFUSED = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.SECURITY_DISABLED,
        ErrorCode.INVALID_REQUEST, ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ErrorCode.DUPLICATE_RESOURCE,
    }
)  # fmt: skip
"""What nobody may answer an administrator who asks for what can be."""


@dataclass(slots=True, kw_only=True)
class Round:
    """What is known of one round."""

    names: Names
    user: str
    mechanism: str
    book: Book = field(default_factory=Book)
    passwords: Passwords = field(default_factory=Passwords)
    is_over: bool = False
    told: list[Told] = field(default_factory=list)
    """Answers that are not judged yet."""
    logins: list[tuple[str, bool]] = field(default_factory=list)
    """Passwords that were tried, and whether they were right."""

    def who(self, password: str) -> Who:
        """Return the user, as it says who it is."""
        return Who(user=self.user, password=password, mechanism=self.mechanism)

    @property
    def asker(self) -> Asker:
        """The user, as it asks."""
        return Asker(self.names.principal, self.names.host)


Change = Callable[[Round], Awaitable[None]]


def root(draw: Random) -> Who:
    """Return the one who may everything."""
    return Who(user=ROOT, password=ROOTS_PASSWORD, mechanism=draw.choice(BY_PASSWORD))


@dataclass(slots=True, kw_only=True)
class Administrator:
    """See the module."""

    world: ClientWorld
    name: str
    """Of its host too, behind `client-`: from there its users ask."""
    random: Random
    rounds: list[Round] = field(default_factory=list)
    is_done: bool = False
    judged: int = 0
    """Answers that had to be exactly so."""
    _admin: Session | None = None
    _user: Session | None = None
    _is_current: bool = False
    """Whether the process that the administrator asks has followed all that was acknowledged."""

    async def run(self) -> None:
        """Go on until told to stop."""
        while not self.world.is_stopping and not self.world.is_over:
            await self._round()
            await asyncio.sleep(self.random.uniform(*REST_SECONDS))
        self._leave()
        self.is_done = True

    # --- a round -------------------------------------------------------------------------------

    async def _round(self) -> None:
        number = len(self.rounds)
        user = f"{self.name}-u{number}"
        names = Names(f"{self.name}-{number}-", f"User:{user}", f"client-{self.name}")
        this = Round(names=names, user=user, mechanism=self.random.choice(list(SCRAM)))
        self.rounds.append(this)
        steps: list[Change] = [self._set_password, self._add]
        others: list[Change] = [self._add] * 3
        others += [self._delete, self._delete_exactly]
        others += [self._set_password, self._take_password, self._move]
        steps += self.random.choices(others, k=self.random.randint(*CHANGES))
        if self.random.random() >= LEFT_SHARE:
            steps.append(self._delete_all)
        for step in steps:
            if self.world.is_stopping or this.book.is_vague:
                break
            await self._step(this, step)
        this.is_over = True
        self._leave_user()

    async def _step(self, this: Round, change: Change) -> None:
        try:
            await self._as_root()
            await change(this)
        except LinkFailed:
            self._leave()
            await pause(self.random)
            return
        await self._look(this)
        is_confirmed = await self._confirm(this)
        self._judge(this, is_current=self._is_current and is_confirmed)
        if not is_confirmed:
            self._leave()

    async def _as_root(self) -> Session:
        """Raises LinkFailed."""
        if self._admin is None:
            self._is_current = False
            host = self.random.choice(list(self.world.brokers.values()))
            self._admin = await Session.open(root(self.random), host, self.random)
        else:
            await self._admin.stay()
        return self._admin

    def _leave(self) -> None:
        if self._admin is not None:
            self._admin.close()
        self._admin, self._is_current = None, False
        self._leave_user()

    def _leave_user(self) -> None:
        if self._user is not None:
            self._user.close()
        self._user = None

    async def _move(self, _: Round) -> None:
        """Go to another broker, which may not have heard of all changes yet."""
        self._leave()
        await self._as_root()

    # --- changes of rules ----------------------------------------------------------------------

    async def _add(self, this: Round) -> None:
        rules = {draw_rule(this.names, self.random) for _ in range(self.random.choice(RULES))}
        wanted = sorted(rules, key=repr)
        try:
            codes = await (await self._as_root()).create(wanted)
        except LinkFailed:
            this.book.added(wanted, is_known=False)
            raise
        for code in sorted(set(codes)):
            if code in NOT_DONE:
                continue
            those = [rule for rule, own in zip(wanted, codes, strict=True) if own == code]
            this.book.added(those, is_known=code == ErrorCode.NONE)
        self._answered(codes, f"rules of {this.user}")

    async def _delete(self, this: Round) -> None:
        await self._remove(this, draw_filter(this.names, self.random))

    async def _delete_exactly(self, this: Round) -> None:
        rules = sorted(this.book.last.there | this.book.last.loose, key=repr)
        if rules:
            await self._remove(this, exactly(self.random.choice(rules)))

    async def _delete_all(self, this: Round) -> None:
        await self._remove(this, Filter(principal=this.names.principal))

    async def _remove(self, this: Round, wanted: Filter) -> None:
        before = this.book.last
        found = [rule for rule in before.there | before.loose if wanted.finds(rule)]
        try:
            code, gone = await (await self._as_root()).delete(wanted)
        except LinkFailed:
            this.book.removed(found, is_known=False)
            raise
        is_known = code == ErrorCode.NONE
        this.book.removed(found, is_known=is_known)
        self._answered([code], f"a removal of rules of {this.user}")
        certain = {rule for rule in found if rule not in before.loose}
        if is_known and not certain <= gone <= set(found):
            self.world.refuse(
                f"{wanted} removes {_texts(gone)}, and has to remove {_texts(certain)}"
                f" of {_texts(found)}"
            )

    def _answered(self, codes: list[int], what: str) -> None:
        """Note what an answer to a change means."""
        if all(code == ErrorCode.NONE for code in codes):
            self._is_current = True
        for code in codes:
            if code in REFUSED:
                self.world.refuse(f"{what}: {ErrorCode(code)!r}")

    # --- changes of users ----------------------------------------------------------------------

    async def _set_password(self, this: Round) -> None:
        password = self.random.randbytes(6).hex()
        salt = self.random.randbytes(SALT_BYTES)
        upsert = {
            "name": this.user,
            "mechanism": SCRAM[this.mechanism],
            "iterations": ITERATIONS_MIN,
            "salt": salt,
            "salted_password": salted_password(this.mechanism, password, salt, ITERATIONS_MIN),
        }
        await self._alter(this, password, {"deletions": [], "upsertions": [upsert]})

    async def _take_password(self, this: Round) -> None:
        removal = {"name": this.user, "mechanism": SCRAM[this.mechanism]}
        await self._alter(this, None, {"deletions": [removal], "upsertions": []})

    async def _alter(self, this: Round, password: str | None, fields: dict[str, object]) -> None:
        session = await self._as_root()
        try:
            answer = await session.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, fields)
        except LinkFailed:
            this.passwords.changed(password, is_known=False)
            raise
        code = answer.results[0].error_code
        may_be = {this.passwords.now, *this.passwords.loose}
        if code == ErrorCode.RESOURCE_NOT_FOUND and None not in may_be:
            self.world.refuse(f"{this.user} has a password, and none could be taken away")
        if code not in NOT_DONE:
            this.passwords.changed(password, is_known=code == ErrorCode.NONE)
            self._leave_user()  # and come in again by the new one
        self._answered([code], f"the password of {this.user}")

    # --- what they come to ---------------------------------------------------------------------

    async def _look(self, this: Round) -> None:
        """Have the user ask the broker that the administrator asks."""
        assert self._admin is not None
        if self.random.random() < WRONG_SHARE:
            await self._try_password(this, self._admin.host)
        try:
            session = await self._as_user(this, self._admin.host)
            if session is None:
                return
            count = self.random.randint(*QUESTIONS)
            this.told += await ask_some(
                session.link, this.asker, this.names.all, self.random, count
            )
        except LinkFailed:
            self._leave_user()

    async def _as_user(self, this: Round, host: str) -> Session | None:
        """Return the user's connection; None if it is not let in. Raises LinkFailed."""
        password = this.passwords.now
        if self._user is not None and self._user.host != host:
            self._leave_user()
        if self._user is None and password is None:
            return None
        try:
            if self._user is None:
                assert password is not None
                self._user = await Session.open(this.who(password), host, self.random)
                this.logins.append((password, True))
            else:
                await self._user.stay(this.who(password or self._user.who.password))
        except NotLetIn:
            self._leave_user()
            if password is not None:
                this.logins.append((password, False))
            return None
        return self._user

    async def _try_password(self, this: Round, host: str) -> None:
        """Try one that is wrong, or that was right before."""
        password = self.random.choice(["wrong", *sorted(this.passwords.ever)])
        try:
            session = await Session.open(this.who(password), host, self.random)
        except NotLetIn:
            this.logins.append((password, False))
        except Believed:
            this.logins.append((password, True))
        except LinkFailed:
            return
        else:
            session.close()
            this.logins.append((password, True))

    async def _confirm(self, this: Round) -> bool:
        """Read what is there; False if the administrator's connection is gone."""
        if self._admin is None:
            return False
        try:
            rules = await self._admin.describe(Filter(principal=this.names.principal))
            users = await self._admin.users([this.user])
        except LinkFailed:
            return False
        self._compare(this, rules, users.get(this.user, set()))
        return True

    def _compare(self, this: Round, rules: list[Rule], mechanisms: set[int]) -> None:
        """Compare what was read with what is known."""
        wanted = Filter(principal=this.names.principal)
        pages = this.book.pages[-1:] if self._is_current else this.book.pages
        told = set(rules)
        if len(told) < len(rules) or not any(
            page.may_be_found(wanted.finds, told) for page in pages
        ):
            self.world.refuse(
                f"rules of {this.user} at {self._place}: {_texts(told)}, not"
                f" {_texts(filter(wanted.finds, this.book.last.there))}"
            )
        may_be = {this.passwords.now, *this.passwords.loose}
        is_there = SCRAM[this.mechanism] in mechanisms
        is_wrong = may_be == {None} if is_there else None not in may_be
        if self._is_current and is_wrong:
            self.world.refuse(f"{this.user} has mechanisms {mechanisms} at {self._place}")

    @property
    def _place(self) -> str:
        host = "nobody" if self._admin is None else self._admin.host
        return f"{host}, which has followed" if self._is_current else host

    def _judge(self, this: Round, *, is_current: bool) -> None:
        """Judge the answers since the last change."""
        for one in this.told:
            if not (is_current or one.is_of_rules):
                continue
            self.judged += is_current
            if not this.book.explains(one.decide, is_allowed=one.is_allowed, is_current=is_current):
                self.world.refuse(
                    f"{one.text} at {self._place}, with {_texts(this.book.last.there)}"
                    f" and perhaps {_texts(this.book.last.loose)}"
                )
        for password, is_let_in in this.logins:
            self.judged += is_current
            if not this.passwords.explains(password, is_let_in=is_let_in, is_current=is_current):
                did = "is let in" if is_let_in else "is not let in"
                self.world.refuse(f"{this.user} with {password} {did} at {self._place}")
        this.told, this.logins = [], []


def _texts(rules: object) -> list[str]:
    assert hasattr(rules, "__iter__")
    return sorted(
        f"{one.permission.name} {one.operation.name} {one.resource_type.name} {one.resource_name}"
        f"{'…' if one.pattern is AclPattern.PREFIXED else ''} to {one.principal} at {one.host}"
        for one in rules
    )
