"""A second model of NetLock, written from the reference model alone, to check R3, R12, R14 and R15 of the first.

    python3 model.py r3 | r12 | r14 | r15

A transaction that expired awaits its answers, as in the artefact. The model has no overflow, no leases and no moves of
locks. Times are in us. Results are in results.md.
"""
import heapq
import random
import sys
from collections import defaultdict


class Network:
    """A switch, hosts, and lock servers of 8 cores, if installed says which locks the switch has (None: all)."""

    def __init__(self, servers=0, delay=3.25, gap=0.055, drain=0.0, installed=None):
        self.now, self.events, self.serial, self.rng = 0.0, [], 0, random.Random(1)
        self.servers, self.delay, self.gap, self.drain, self.installed = servers, delay, gap, drain, installed
        self.free, self.last, self.core, self.batch = defaultdict(float), defaultdict(float), defaultdict(float), {}
        self.locks, self.asked, self.most = defaultdict(lambda: ([], [])), defaultdict(int), defaultdict(int)
        self.priorities, self.quota, self.used = False, 0, defaultdict(int)

    def at(self, time, call, *args):
        self.serial += 1
        heapq.heappush(self.events, (time, self.serial, call, args))

    def run(self, end):
        while self.events and self.events[0][0] <= end:
            self.now, _, call, args = heapq.heappop(self.events)
            call(*args)

    def fly(self, way, time):
        """One way between a host and the switch: first in, first out, with a jitter of half a us."""
        self.last[way] = max(self.last[way], time + self.delay + self.rng.uniform(-0.25, 0.25))
        return self.last[way]

    def send(self, thread, op, lock, exclusive, tid):
        leaves = self.free[thread.host] = max(self.free[thread.host] + self.gap, self.now)
        self.at(self.fly(("up", thread.host), leaves), self.switch, thread, op, lock, exclusive, tid)

    def switch(self, thread, op, lock, exclusive, tid):
        if op == "acquire" and self.quota:
            if self.used[thread.tenant] >= self.quota:
                self.at(self.fly(("down", thread.host), self.now + 0.6), thread.rejected, lock, exclusive, tid)
                return
            self.used[thread.tenant] += 1
        if self.installed is None or lock in self.installed:
            self.process(None, thread, op, lock, exclusive, tid)
            return
        server = lock % self.servers
        core = (server, lock * 2654435761 >> 7 & 7)
        arrives = self.fly(("down", "server", server), self.now + 0.6)
        self.core[core] = max(arrives, self.core[core]) + 0.444
        self.at(self.core[core], self.process, core, thread, op, lock, exclusive, tid)

    def process(self, core, thread, op, lock, exclusive, tid):
        holders, waiting = self.locks[lock]
        if op == "acquire":
            self.asked[lock] += 1
            level = thread.priority if self.priorities else 0
            if exclusive:
                grant = not holders and not waiting
            else:
                grant = not any(h[1] for h in holders) and not any(
                    w[1] and (w[0].priority if self.priorities else 0) <= level for w in waiting)
            (holders if grant else waiting).append((thread, exclusive, lock, tid))
            self.most[lock] = max(self.most[lock], len(holders) + len(waiting))
            if grant:
                self.grant(core, holders[-1])
            return
        mine = [h for h in holders if h[0] is thread and h[3] == tid]
        if not mine:
            return
        holders.remove(mine[0])
        if holders:
            return
        if self.priorities:
            waiting.sort(key=lambda w: w[0].priority)
        while waiting and (not holders or not waiting[0][1] and not holders[0][1]):
            holders.append(waiting.pop(0))
            self.at(self.now + (0.2 * len(holders) if core is None else 0), self.grant, core, holders[-1])

    def grant(self, core, entry):
        thread, _, lock, tid = entry
        if core is None:
            self.at(self.fly(("down", thread.host), self.now + 0.6), thread.granted, lock, tid, True)
        elif not self.drain:
            self.leave(core, [entry])
        else:
            batch = self.batch.setdefault(core, [])
            if not batch:
                phase = hash(core) % 1000 / 1000 * self.drain
                self.at(self.now + self.drain - (self.now - phase) % self.drain, self.flush, core, batch)
            batch.append(entry)
            if len(batch) == 32:
                self.flush(core, batch)

    def flush(self, core, batch):
        if self.batch.get(core) is batch:
            del self.batch[core]
            self.leave(core, batch)

    def leave(self, core, batch):
        for thread, _, lock, tid in batch:
            self.at(self.fly(("up", "server", core[0]), self.now) + 0.6, self.down, thread, lock, tid)

    def down(self, thread, lock, tid):
        self.at(self.fly(("down", thread.host), self.now), thread.granted, lock, tid, False)


class Thread:
    """A thread of a client; draw returns the locks of its next transaction, and which are exclusive."""

    def __init__(self, net, host, draw, think=0, timeout=0, tenant=1, priority=0, outstanding=1, start=0, since=0):
        self.net, self.host, self.draw, self.think, self.timeout = net, host, draw, think, timeout
        self.tenant, self.priority, self.since = tenant, priority, since
        self.tid, self.active, self.grants, self.by_switch, self.expired = 0, {}, 0, 0, 0
        for _ in range(outstanding):
            net.at(start, self.begin, None)

    def begin(self, locks):
        locks = locks or self.draw()
        self.tid += 1
        self.active[self.tid] = [locks, set(), 0, "waits"]
        for lock, exclusive in locks.items():
            self.net.send(self, "acquire", lock, exclusive, self.tid)
        if self.timeout:
            self.net.at(self.net.now + max(self.timeout, 2 * self.think), self.expire, self.tid)

    def rejected(self, lock, exclusive, tid):
        self.net.at(self.net.now + 10, self.net.send, self, "acquire", lock, exclusive, tid)

    def granted(self, lock, tid, by_switch):
        transaction = self.active[tid]
        transaction[1].add(lock)
        transaction[2] += by_switch
        if transaction[3] == "revoked":
            self.net.send(self, "release", lock, False, tid)
        if len(transaction[1]) < len(transaction[0]):
            return
        if transaction[3] == "revoked":
            self.restart(tid)
        else:
            transaction[3] = "thinks"
            self.net.at(self.net.now + self.think, self.commit, tid)

    def commit(self, tid):
        locks, _, by_switch, _ = self.active.pop(tid)
        for lock in locks:
            self.net.send(self, "release", lock, False, tid)
        if self.net.now >= self.since:
            self.grants += len(locks)
            self.by_switch += by_switch
        self.begin(None)

    def expire(self, tid):
        """A transaction that waits too long releases what it has, and starts anew when it has been granted all."""
        if tid not in self.active or self.active[tid][3] != "waits":
            return
        self.active[tid][3] = "revoked"
        self.expired += 1
        for lock in self.active[tid][1]:
            self.net.send(self, "release", lock, False, tid)

    def restart(self, tid):
        locks = self.active.pop(tid)[0]
        self.net.at(self.net.now + self.net.rng.randrange(10) * 30 * self.timeout / 400, self.begin, locks)


def tpcc(rng, warehouses):
    def skewed(a, n):
        return (rng.randrange(a + 1) | rng.randrange(n)) % n

    def other(home, share):
        if warehouses == 1 or rng.random() >= share:
            return home
        return (home + 1 + rng.randrange(warehouses - 1)) % warehouses

    def draw():
        home, district, locks, kind = rng.randrange(warehouses), rng.randrange(10), {}, rng.random() * 100

        def take(warehouse, table, row, exclusive):
            lock = hash((warehouse, table, row))
            locks[lock] = locks.get(lock, False) or exclusive

        if kind < 45:  # New-Order
            take(home, 0, 0, False)
            take(home, 1, district, True)
            take(home, 2, district * 3000 + skewed(1023, 3000), False)
            for _ in range(rng.randint(5, 15)):
                take(other(home, 0.01), 3, skewed(8191, 100_000), True)
        elif kind < 88:  # Payment
            take(home, 0, 0, True)
            take(home, 1, district, True)
            take(other(home, 0.15), 2, rng.randrange(10) * 3000 + skewed(1023, 3000), True)
        elif kind < 92:  # Order-Status
            customer = district * 3000 + skewed(1023, 3000)
            take(home, 2, customer, False)
            take(home, 4, customer, False)
        elif kind < 96:  # Delivery
            for d in range(10):
                row = d * 3000 + rng.randrange(3000)
                for table in (5, 4, 2):
                    take(home, table, row, True)
        else:  # Stock-Level
            take(home, 1, district, False)
            for _ in range(20):
                take(home, 3, skewed(8191, 100_000), False)
        return locks

    return draw


def measure(net, threads, since, end):
    net.run(end)
    grants = sum(t.grants for t in threads)
    return grants / (end - since), sum(t.by_switch for t in threads) / max(1, grants), sum(t.expired for t in threads)


def run_tpcc(installed, since, end, think=0):
    net = Network(servers=2, drain=10, installed=installed)
    threads = [Thread(net, host, tpcc(random.Random(1000 + host * 9 + i), 10), think, 400, since=since)
               for host in range(10) for i in range(4)]
    return net, *measure(net, threads, since, end)


def knapsack(net, slots):
    installed = set()
    for lock in sorted(net.asked, key=lambda i: -net.asked[i] / net.most[i]):
        if slots <= 0:
            break
        installed.add(lock)
        slots -= net.most[lock]
    return installed


def halves(locks, seed):
    half, place = random.Random(seed).sample(range(locks), locks // 2), [0]

    def draw():
        place[0] += 1
        return {half[place[0] % len(half)]: True}

    return draw


def one_of(locks, seed):
    rng = random.Random(seed)
    return lambda: {rng.randrange(locks): True}


def r3():
    for locks in (500, 1000, 3000):
        net = Network()
        threads = [Thread(net, h, halves(locks, h * 7 + i), outstanding=250, since=200)
                   for h in range(12) for i in (0, 1)]
        print("R3: %d locks: %.1f MRPS" % (locks, measure(net, threads, 200, 600)[0]))


def r12():
    first, rate, _, _ = run_tpcc(set(), 2000, 20_000)
    print("all by servers: %.2f MRPS" % rate)
    for think, since, end in ((0, 4000, 24_000), (5, 4000, 24_000), (10, 4000, 24_000), (100, 10_000, 50_000)):
        _, rate, share, expired = run_tpcc(knapsack(first, 4000), since, end, think)
        print("R12: think %d us: %.2f MRPS, %.0f %% by the switch, %d expired" % (think, rate, 100 * share, expired))


def of_tenants(threads):
    return [sum(t.grants for t in threads if t.tenant == tenant) for tenant in (1, 2)]


def r14():
    for priorities in (False, True):
        net = Network(delay=1.72)
        net.priorities = priorities
        threads = [Thread(net, h, one_of(10, h * 5 + i), 5, 1000, 1 + h // 5, 2 - h // 5, start=h // 5 * 2000,
                          since=2500) for h in range(10) for i in range(4)]
        net.run(4000)
        low, high = of_tenants(threads)
        print("R14: priorities %s: Jain %.4f, high beside low %.2f" % (
            priorities, (low + high) ** 2 / 2 / (low * low + high * high), high / low))


def r15():
    for quota in (0, 6000):
        net = Network()
        net.quota = quota
        threads = [Thread(net, h, one_of(1000, h), tenant=1 if h < 7 else 2) for h in range(10)]
        for period in (20_000, 40_000):
            net.at(period, net.used.clear)
        net.run(59_999)
        one, two = of_tenants(threads)
        print("R15: quota %d: share of tenant 1: %.1f %%" % (quota, 100 * one / (one + two)))


if __name__ == "__main__":
    {"r3": r3, "r12": r12, "r14": r14, "r15": r15}[sys.argv[1]]()
