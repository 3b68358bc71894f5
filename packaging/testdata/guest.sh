#!/bin/sh
# Runs in a Debian guest: installs the package, starts its units, and says on the console what it found, one line for each check:
# "CHECK ok NAME" or "CHECK failed NAME: what". The end is "CHECK done".
export LC_ALL=C
deb=$(echo /root/candela_*.deb)

check() { # check NAME COMMAND...
  name=$1
  shift
  if out=$("$@" 2>&1); then
    echo "CHECK ok ${name}"
  else
    echo "CHECK failed ${name}: $(echo "${out}" | tail -n 12 | tr '\n' '|')"
  fi
}

# files lists everything on the disk but what the system itself writes.
files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/log -o -path /root \
    -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /etc/machine-id \) -prune -o -print | sort
}

# tried tries a command again until it succeeds, for half a minute.
tried() {
  for _ in $(seq 60); do
    "$@" && return
    sleep 0.5
  done
  return 1
}

links() {
  for i in 0 1 2; do
    ip link add "n${i}" mtu 2304 numrxqueues 1 numtxqueues 1 type veth peer name "p${i}" mtu 2304 numrxqueues 1 numtxqueues 1 || return 1
    ip link set "n${i}" up && ip link set "p${i}" up || return 1
  done
}

# Three agents, since one serves one machine: the packaged unit, and two copies of it with other addresses and directories.
configure() {
  candela agent pki init /root/lab || return 1
  for who in agent switchd; do
    role=agent
    [ "${who}" = switchd ] && role=switch
    candela agent pki issue /root/lab "${who}" --role "${role}" --host 127.0.0.1 || return 1
    cp "/root/lab/${who}.pem" "/root/lab/${who}.key" /etc/candela/ || return 1
  done
  candela agent pki issue /root/lab nightly --role orchestrator || return 1
  cp /root/lab/ca.pem /root/lab/revoked.crl /etc/candela/ || return 1
  sed -i 's/--interface eth1/--interface n0 --xdp-pass/' /etc/candela/agent.env
  sed -i 's/--ports eth1,eth2 --mirror eth3/--ports p0,p1 --mirror p2/' /etc/candela/switchd.env
  for i in 1 2; do
    sed "s/n0/n${i}/; s/:9560/:956${i}/" /etc/candela/agent.env >"/root/agent-${i}.env"
    sed "s,/etc/candela/agent.env,/root/agent-${i}.env,; s,/candela/agent,/candela/agent-${i}," \
      /usr/lib/systemd/system/candela-agent.service >"/etc/systemd/system/copied-${i}.service"
  done
  systemctl daemon-reload
  cat >/root/lab.yml <<YML
name: guest
kind: lab
links: {requester: {rate-gbps: 1}, responder: {rate-gbps: 1}}
mirror: {snap-bytes: 128}
dumpers: [{name: dumper-1, cores: 1}]
live:
  requester: {agent: "127.0.0.1:9560", interface: n0, port: 0}
  responder: {agent: "127.0.0.1:9561", interface: n1, port: 1}
  dumpers: [{agent: "127.0.0.1:9562", interface: n2, port: 2}]
  switch: {address: "127.0.0.1:9559"}
  certificates: {cert: /root/lab/nightly.pem, key: /root/lab/nightly.key, ca: /root/lab/ca.pem, crl: /root/lab/revoked.crl}
YML
}

# fit runs testbed check. Everybody must answer, and packets must have come through the switch and its mirror, in one of three tries:
# calls have time limits. That no packet is lost or late takes more processor time than an emulated guest on a busy machine may get:
# that is only said.
fit() {
  carried=
  for _ in 1 2 3; do
    out=$(candela testbed check --lldp-wait 0 /root/lab.yml 2>&1) && return 0
    for who in requester responder dumper-1 switch; do
      echo "${out}" | grep -q "^${who}: version" || { carried=; echo "no answer of ${who}"; continue 2; }
    done
    if echo "${out}" | grep -q '^dumper-1: [1-9][0-9]* copies'; then
      carried=1
      break
    fi
  done
  if [ -n "${carried}" ]; then
    echo "CHECK note: everybody answers and packets pass, but: $(echo "${out}" | grep '^problem' | head -n 1)" >/dev/ttyS0
    return 0
  fi
  journalctl -q -n 6 -o cat -u candela-agent -u candela-switchd
  echo "${out}" | grep '^problem\|^candela'
  return 1
}

property() { systemctl show -P "$2" "$1"; }

is() { # is UNIT PROPERTY VALUE
  value=$(property "$1" "$2")
  [ "${value}" = "$3" ] || { echo "$1: $2 is ${value}, want $3"; systemctl status --no-pager "$1" | tail -n 5; return 1; }
}

# confined reports a service that may do more than it needs.
confined() {
  pid=$(property "$1" MainPID)
  want=$2
  [ "${pid}" != 0 ] || { echo "$1 does not run"; return 1; }
  got=$(awk '/^CapEff:/ {print $2}' "/proc/${pid}/status")
  [ "${got}" = "${want}" ] || { echo "$1: capabilities ${got}, want ${want}"; return 1; }
  grep -q '^NoNewPrivs:.*1$' "/proc/${pid}/status" || { echo "$1 may gain privileges"; return 1; }
  [ "$(awk '{print $19}' "/proc/${pid}/stat")" = -20 ] || { echo "$1: nice $(awk '{print $19}' "/proc/${pid}/stat")"; return 1; }
}

restarted() { # restarted UNIT: whether it comes back under another process id after a kill -9
  before=$(property "$1" MainPID)
  systemctl kill -s KILL --kill-whom=main "$1" || return 1
  tried again "$1" "${before}"
}

again() {
  now=$(property "$1" MainPID)
  [ "${now}" != 0 ] && [ "${now}" != "$2" ] && [ "$(property "$1" ActiveState)" = active ]
}

unprogrammed() { # no XDP program is left on any interface
  ! ip -d link | grep -B 1 'prog/xdp'
}

gone() { # gone UNIT: it is not there, nor a process of it
  is "$1" LoadState not-found && ! pgrep -x candela
}

unknown() { # a path that is not there
  [ ! -e "$1" ] || { echo "$1 is still there"; ls -lR "$1"; return 1; }
}

renewed() { # the timer's service renews the list
  before=$(sha256sum /etc/candela/pki/revoked.crl)
  systemctl start candela-pki.timer candela-pki.service || { journalctl -q -n 6 -o cat -u candela-pki; return 1; }
  is candela-pki Result success && is candela-pki.timer ActiveState active || return 1
  [ "$(sha256sum /etc/candela/pki/revoked.crl)" != "${before}" ]
}

# verbs: the helper for RDMA devices starts, or names the library that this Debian lacks.
verbs() {
  out=$(/usr/lib/candela/candela-verbs 2>&1 </dev/null)
  echo "${out}" | grep -q 'libibverbs\|candela-verbs' || { echo "it says: ${out}"; return 1; }
}

documents() { # dashboard, recipes and the guide that units refer to
  for name in grafana.json github-nightly.yml gitlab-nightly.yml nightly.md; do
    [ -s "/usr/share/doc/candela/${name}" ] || { echo "no ${name}"; return 1; }
  done
  grep -q '"panels"' /usr/share/doc/candela/grafana.json
}

# night runs a night of one test with the packaged unit: runs, summary, store and metrics are where the package has them.
night() {
  mkdir -p /etc/candela/suites || return 1
  printf 'name: one\ntraffic: {message-size: 1024}\n' >/etc/candela/suites/one.yml
  sed -i 's/^repetitions: 5/repetitions: 1/' /etc/candela/nightly.yml
  candela nightly /etc/candela/nightly.yml --check || return 1
  systemctl start candela-nightly || { journalctl -q -n 6 -o cat -u candela-nightly; return 1; }
  is candela-nightly Result success && is candela-nightly ExecMainStatus 0 || return 1
  candela history list --history /var/lib/candela/nights/history.db | grep -q one || { echo "the store has no run"; return 1; }
  grep -q '^candela_nightly_exit_status.* 0$' /var/lib/candela/nightly.prom || { cat /var/lib/candela/nightly.prom; return 1; }
  grep -q '"schema"' /var/lib/candela/nights/*/*/summary.json
}

# scheduled: the timer waits for the evening, and starts nothing before.
scheduled() {
  systemctl enable --now candela-nightly.timer && is candela-nightly.timer ActiveState active || return 1
  is candela-nightly ActiveState inactive && [ -n "$(property candela-nightly.timer NextElapseUSecRealtime)" ]
}

sleepy() { # a unit that is neither running nor enabled
  is "$1" ActiveState inactive && is "$1" UnitFileState disabled
}

files >/root/before
check "install" dpkg -i "${deb}"
check "the units are valid" systemd-analyze verify candela-agent.service candela-switchd.service candela-pki.service candela-pki.timer \
  candela-nightly.service candela-nightly.timer
check "installing starts nothing: agent" sleepy candela-agent
check "installing starts nothing: switchd" sleepy candela-switchd
check "installing starts nothing: nightly" sleepy candela-nightly.timer
check "the orchestrator runs" candela version
check "candela-verbs starts" verbs
check "dashboard and recipes" documents
check "a night" night
check "the timer of nights" scheduled
systemctl start candela-agent 2>/dev/null
check "a unit that is not configured says so" sh -c 'journalctl -q -o cat -u candela-agent | grep -q "eth1\|agent.pem"'
systemctl stop candela-agent
systemctl reset-failed candela-agent 2>/dev/null
check "links" links
check "configure" configure
check "installing starts nothing: pki" sleepy candela-pki.timer
cp -r /root/lab /etc/candela/pki
check "the authority's list is renewed" renewed
rm -r /etc/candela/pki
check "agents start" systemctl start candela-agent copied-1 copied-2
check "switchd starts" systemctl start candela-switchd
check "agent is confined" confined candela-agent 000000c000003020
check "switchd is confined" confined candela-switchd 000000c000803000
check "testbed check" fit
check "agent comes back after kill -9" restarted candela-agent
check "switchd comes back after kill -9" restarted candela-switchd
check "testbed check after the kills" fit
check "install again, as an upgrade" dpkg -i "${deb}"
check "agent runs after the upgrade" is candela-agent ActiveState active
check "switchd runs after the upgrade" is candela-switchd ActiveState active
check "testbed check after the upgrade" fit
check "switchd stops" systemctl stop candela-switchd
check "switchd stopped cleanly" is candela-switchd Result success
check "switchd's status is 0" is candela-switchd ExecMainStatus 0
systemctl stop copied-1 copied-2
check "agent stops" systemctl stop candela-agent
check "agent stopped cleanly" is candela-agent Result success
check "no XDP program is left" unprogrammed
check "no capture is left" unknown /var/lib/candela/agent/runs
check "start again" systemctl start candela-agent
check "enable" systemctl enable candela-agent candela-switchd
rm -f /etc/systemd/system/copied-*.service
check "remove while it runs" dpkg -r candela
check "nothing runs after removal" gone candela-agent
check "no night is due after removal" is candela-nightly.timer LoadState not-found
check "the configuration stays until a purge" test -e /etc/candela/agent.env
check "purge" dpkg -P candela
check "a purge takes the nights" unknown /var/lib/candela
check "a purge keeps certificates" test -e /etc/candela/agent.key
rm -r /etc/candela
files >/root/after
check "nothing is left" diff /root/before /root/after
echo "CHECK done at $(cut -d ' ' -f 1 /proc/uptime) s"
