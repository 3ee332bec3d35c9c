# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_distlock_global_optspecs
    string join \n url= url-file= local json h/help V/version
end

function __fish_distlock_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_distlock_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_distlock_using_subcommand
    set -l cmd (__fish_distlock_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c distlock -n "__fish_distlock_needs_command" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_needs_command" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_needs_command" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_needs_command" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_needs_command" -s h -l help -d 'Print help'
complete -c distlock -n "__fish_distlock_needs_command" -s V -l version -d 'Print version'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "run" -d 'Runs a command while holding a lock'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "elect" -d 'Runs a command while leading an election'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "leader" -d 'Prints the value that the leader of an election has published'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "observe" -d 'Watches an election and prints the leader\'s value when it has changed'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "ls" -d 'Lists the locks that have a holder or waiter, with the kind, the number of waiters, the age of the first holder and the holders of each'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "queue" -d 'Lists the holders and waiters of a lock'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "ask" -d 'Asks the holder of a mutex to release it, and waits for the release. A holder that ignores requests keeps the mutex, and a request ends after ten minutes'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "evict" -d 'Evicts a holder or waiter. If the only holder is evicted, the next waiter is granted the lock at once'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "clear" -d 'Allows a job of `run --once-per` to run again in its period, for example after a failure'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "permits" -d 'Prints the number of permits of a semaphore, or changes it'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "doctor" -d 'Checks the store: servers, versions, session, TTL, guarantees, round trip, rights and clock'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "top" -d 'Shows all locks and refreshes the display. Press q to quit'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "completions" -d 'Prints the completion script for a shell'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "man" -d 'Prints the manual page'
complete -c distlock -n "__fish_distlock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c distlock -n "__fish_distlock_using_subcommand run" -s w -l wait -d 'Maximum time to wait for the lock, such as 30s or 500ms' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l ttl -d 'TTL: the store frees the lock of a dead machine after about this time. The store may grant a different TTL' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l max-hold -d 'Maximum time to hold the lock, for commands that may hang. A command that does not end in time is killed, as when the lock is lost (exit code 70), and the next waiter is granted the lock' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l conflict-exit-code -d 'Exit code if the lock is busy, the wait times out, or the store cannot confirm in time that the lock is free' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l kill-signal -d 'Signal that asks the command to exit before the lock is lost' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l kill-after -d 'Grace period between --kill-signal and SIGKILL. The period must fit into the TTL, because the command is killed before the lock\'s deadline. The default is about a quarter of the TTL, or a tenth on ZooKeeper, but at most 5s and less than half of --max-hold' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l on-lost -d 'Program and arguments to run after the lock is lost and the command is dead, quoted as for a shell. The program\'s environment contains the reason in DISTLOCK_LOST' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l wait-log -d 'Interval at which distlock prints the holder and the position in the queue while it waits. The default is 10s if standard error is a terminal and --json is not set. Otherwise, distlock prints this only if the option is set. On Redlock, distlock never prints this' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l permits -d 'Acquires K of the N permits of a semaphore. If the holders and the first waiter pass different values of N, the smallest value applies. `permits --set` can replace these values' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l all -d 'Acquires all of these locks, and NAME if it is given, or none of them' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l hold-at-least -d 'Minimum time to hold the lock, even if the command ends earlier. A signal that arrives after the command has ended, or the loss of the lock, cuts this time short. Use this option with -n if the hosts\' clocks differ' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l once-per -d 'Period of a job that many hosts start. If distlock was started less than nine tenths of this period after the last run was started, it exits with 0 without running the command. Time spent waiting for the lock does not count. The store records when the last run was started' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand run" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand run" -s n -l nonblock -d 'Does not wait if the lock is busy. On PostgreSQL, MySQL, MariaDB and Redis, distlock waits up to 1.15 times the TTL if the holder seems to be dead, or if the server may lack locks, for example after a failover'
complete -c distlock -n "__fish_distlock_using_subcommand run" -l shared -d 'Acquires a read-write lock for reading, which several --shared holders can hold at once. A read-write lock is independent of a plain lock of the same name, so every run for the name needs --shared or --exclusive'
complete -c distlock -n "__fish_distlock_using_subcommand run" -l exclusive -d 'Acquires a read-write lock for writing, which excludes all other holders. See --shared'
complete -c distlock -n "__fish_distlock_using_subcommand run" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand run" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c distlock -n "__fish_distlock_using_subcommand elect" -s w -l wait -d 'Maximum time to wait for the lock, such as 30s or 500ms' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l ttl -d 'TTL: the store frees the lock of a dead machine after about this time. The store may grant a different TTL' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l max-hold -d 'Maximum time to hold the lock, for commands that may hang. A command that does not end in time is killed, as when the lock is lost (exit code 70), and the next waiter is granted the lock' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l conflict-exit-code -d 'Exit code if the lock is busy, the wait times out, or the store cannot confirm in time that the lock is free' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l kill-signal -d 'Signal that asks the command to exit before the lock is lost' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l kill-after -d 'Grace period between --kill-signal and SIGKILL. The period must fit into the TTL, because the command is killed before the lock\'s deadline. The default is about a quarter of the TTL, or a tenth on ZooKeeper, but at most 5s and less than half of --max-hold' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l on-lost -d 'Program and arguments to run after the lock is lost and the command is dead, quoted as for a shell. The program\'s environment contains the reason in DISTLOCK_LOST' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l wait-log -d 'Interval at which distlock prints the holder and the position in the queue while it waits. The default is 10s if standard error is a terminal and --json is not set. Otherwise, distlock prints this only if the option is set. On Redlock, distlock never prints this' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand elect" -s n -l nonblock -d 'Does not wait if the lock is busy. On PostgreSQL, MySQL, MariaDB and Redis, distlock waits up to 1.15 times the TTL if the holder seems to be dead, or if the server may lack locks, for example after a failover'
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand elect" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand elect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c distlock -n "__fish_distlock_using_subcommand leader" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand leader" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand leader" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand leader" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand leader" -s h -l help -d 'Print help'
complete -c distlock -n "__fish_distlock_using_subcommand observe" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand observe" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand observe" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand observe" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand observe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c distlock -n "__fish_distlock_using_subcommand ls" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand ls" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand ls" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand ls" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand ls" -s h -l help -d 'Print help'
complete -c distlock -n "__fish_distlock_using_subcommand queue" -l kind -d 'The kind of the lock' -r -f -a "mutex\t'A lock with one holder at a time, which `run NAME` acquires'
rw_lock\t'A read-write lock, which `run --shared` and `run --exclusive` acquire'
semaphore\t'A semaphore, whose permits `run --permits` acquires'
election\t'An election, which `elect` joins as a candidate'"
complete -c distlock -n "__fish_distlock_using_subcommand queue" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand queue" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand queue" -l watch -d 'Prints the queue again when it has changed. If it changes again before distlock has read it, only the last state is printed'
complete -c distlock -n "__fish_distlock_using_subcommand queue" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand queue" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand queue" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c distlock -n "__fish_distlock_using_subcommand ask" -s w -l wait -d 'Maximum time to wait for the release. If the mutex has not been released by then, the exit code is 75' -r
complete -c distlock -n "__fish_distlock_using_subcommand ask" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand ask" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand ask" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand ask" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand ask" -s h -l help -d 'Print help'
complete -c distlock -n "__fish_distlock_using_subcommand evict" -l token -d 'The fencing token, as `queue` prints it. If the key has a different token, nothing is evicted' -r
complete -c distlock -n "__fish_distlock_using_subcommand evict" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand evict" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand evict" -l yes -d 'Confirms the eviction. Without this option, nothing is evicted'
complete -c distlock -n "__fish_distlock_using_subcommand evict" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand evict" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand evict" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c distlock -n "__fish_distlock_using_subcommand clear" -s w -l wait -d 'Maximum time to wait for a run that holds the lock. If the run has not ended by then, the exit code is 75. By default, clear does not wait for a run' -r
complete -c distlock -n "__fish_distlock_using_subcommand clear" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand clear" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand clear" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand clear" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand clear" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c distlock -n "__fish_distlock_using_subcommand permits" -l set -d 'The new number. It replaces the number that was set last, the numbers that were replaced before, and those that the holders and the first waiter have passed. For a client that passes any other number, the smaller number applies. Permits in use stay valid: after a reduction, no permit is granted until enough of them have been released' -r
complete -c distlock -n "__fish_distlock_using_subcommand permits" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand permits" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand permits" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand permits" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand permits" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c distlock -n "__fish_distlock_using_subcommand doctor" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand doctor" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand doctor" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand doctor" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c distlock -n "__fish_distlock_using_subcommand top" -l interval -d 'Time between two refreshes, at least 100ms' -r
complete -c distlock -n "__fish_distlock_using_subcommand top" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand top" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand top" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand top" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand top" -s h -l help -d 'Print help'
complete -c distlock -n "__fish_distlock_using_subcommand completions" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand completions" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand completions" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand completions" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand completions" -s h -l help -d 'Print help'
complete -c distlock -n "__fish_distlock_using_subcommand man" -l url -d 'URL of the store, such as postgres://app@db/app, redis://h1, etcd://h1:2379,h2 or zk://h1:2181,h2:2181. The URL may contain a user, a namespace and options, as in etcds://user:password@h1/prod/locks?session_ttl=15s. Other users can read the command line, so put a URL with a password into DISTLOCK_URL or into a file. Without --url, --url-file and --local, the URL comes from DISTLOCK_URL, or else from /etc/distlock/url' -r
complete -c distlock -n "__fish_distlock_using_subcommand man" -l url-file -d 'File that contains the URL of the store' -r -F
complete -c distlock -n "__fish_distlock_using_subcommand man" -l local -d 'Stores the locks in an SQLite file below XDG_STATE_HOME or HOME. These locks exclude only processes of this user on this host'
complete -c distlock -n "__fish_distlock_using_subcommand man" -l json -d 'Prints one JSON object per line: results on standard output, messages on standard error. If the command line cannot be parsed, the error is printed as text'
complete -c distlock -n "__fish_distlock_using_subcommand man" -s h -l help -d 'Print help'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "run" -d 'Runs a command while holding a lock'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "elect" -d 'Runs a command while leading an election'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "leader" -d 'Prints the value that the leader of an election has published'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "observe" -d 'Watches an election and prints the leader\'s value when it has changed'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "ls" -d 'Lists the locks that have a holder or waiter, with the kind, the number of waiters, the age of the first holder and the holders of each'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "queue" -d 'Lists the holders and waiters of a lock'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "ask" -d 'Asks the holder of a mutex to release it, and waits for the release. A holder that ignores requests keeps the mutex, and a request ends after ten minutes'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "evict" -d 'Evicts a holder or waiter. If the only holder is evicted, the next waiter is granted the lock at once'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "clear" -d 'Allows a job of `run --once-per` to run again in its period, for example after a failure'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "permits" -d 'Prints the number of permits of a semaphore, or changes it'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "doctor" -d 'Checks the store: servers, versions, session, TTL, guarantees, round trip, rights and clock'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "top" -d 'Shows all locks and refreshes the display. Press q to quit'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "completions" -d 'Prints the completion script for a shell'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "man" -d 'Prints the manual page'
complete -c distlock -n "__fish_distlock_using_subcommand help; and not __fish_seen_subcommand_from run elect leader observe ls queue ask evict clear permits doctor top completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
