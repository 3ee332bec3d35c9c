// Curator's InterProcessMutex and Revoker, which execute commands from standard input: see
// protocol.md.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;

public final class Curator {
    /** Exposes the path of its node. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String key() {
            return getLockPath();
        }
    }

    private static void say(String line) {
        String[] parts = line.split(" ", 2);
        // On Linux this is CLOCK_MONOTONIC.
        String rest = parts.length > 1 ? " " + parts[1] : "";
        synchronized (System.out) {
            System.out.println(parts[0] + " " + System.nanoTime() + rest);
            System.out.flush();
        }
    }

    private static void lock(Mutex mutex) throws Exception {
        say("ask");
        mutex.acquire();
        say("grant " + mutex.key());
    }

    private static void unlock(Mutex mutex) throws Exception {
        say("release");
        mutex.release();
    }

    /** Waits for the lock until another client requests it. */
    private static void lockUnlessAsked(CuratorFramework client, String path) throws Exception {
        Mutex mutex = new Mutex(client, path);
        Thread waiter = Thread.currentThread();
        mutex.makeRevocable(asked -> waiter.interrupt());
        try {
            lock(mutex);
        } catch (InterruptedException asked) {
            Thread.interrupted(); // Curator sets it again
            say("left");
            return;
        }
        say("error granted before anybody asked for it back");
    }

    public static void main(String[] args) throws Exception {
        String path = args[1];
        int ttl = Integer.parseInt(args[2]);
        CuratorFramework client =
                CuratorFrameworkFactory.builder()
                        .connectString(args[0].replaceFirst("^zk://", ""))
                        .sessionTimeoutMs(ttl)
                        .connectionTimeoutMs(10_000)
                        .retryPolicy(new RetryNTimes(10, 100))
                        .build();
        client.start();
        client.blockUntilConnected();
        Mutex mutex = new Mutex(client, path);
        say("ready " + ProcessHandle.current().pid());
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "lock":
                        lock(mutex);
                        continue;
                    case "unlock":
                        unlock(mutex);
                        break;
                    case "run":
                        for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                            lock(mutex);
                            Thread.sleep(Integer.parseInt(words[2]));
                            unlock(mutex);
                        }
                        break;
                    case "lock-unless-asked":
                        lockUnlessAsked(client, path);
                        continue;
                    case "revoke":
                        Revoker.attemptRevoke(client, words[1]);
                        break;
                    default:
                        say("error unknown command " + words[0]);
                }
                say("done");
            }
            client.close();
        } catch (Exception failed) {
            say("error " + failed);
            System.exit(1);
        }
        System.exit(0);
    }
}
