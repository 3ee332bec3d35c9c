import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * Curator's InterProcessMutex and other primitives, as a process of the bench: it implements the
 * protocol of benches/src/link.rs. It has one client, and a thread for each contender, because the
 * mutex identifies its holders by their threads.
 */
public final class Curator {
    /** How long tasks may take to finish after the end of the window. */
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(20);
    /** Pairs before the first measured one. */
    private static final long WARM_PAIRS = 3_000;
    /** How long they may take: sixteen processes that share two cores need this. */
    private static final long WARM_TIME = TimeUnit.SECONDS.toNanos(30);
    /** The time far from the server, where the network and not the code takes most of a pair. */
    private static final long WARM_TIME_FAR = TimeUnit.SECONDS.toNanos(3);

    private static final ObjectMapper JSON = new ObjectMapper();

    private static void say(String kind, Object what) throws IOException {
        System.out.println(JSON.writeValueAsString(Map.of(kind, what)));
        System.out.flush();
    }

    /**
     * Reads the bench's messages. The process exits when the bench has closed the pipe, whatever it
     * waits for.
     */
    private static BlockingQueue<String> orders() {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader =
                new Thread(
                        () -> {
                            try (var input = new BufferedReader(new InputStreamReader(System.in))) {
                                input.lines().forEach(lines::add);
                            } catch (IOException | RuntimeException ended) {
                                // The same as the end of the input.
                            }
                            Runtime.getRuntime().halt(1);
                        });
        reader.setDaemon(true);
        reader.start();
        return lines;
    }

    public static void main(String[] args) throws Exception {
        BlockingQueue<String> answers = orders();
        CuratorFramework client = null;
        try {
            Task task = Task.parse(JSON, args);
            client =
                    CuratorFrameworkFactory.builder()
                            .connectString(task.servers())
                            .retryPolicy(new RetryNTimes(10, 100))
                            .build();
            client.start();
            client.blockUntilConnected();
            say("Done", work(client, task, answers));
        } catch (Exception failure) {
            say("Failed", failure.toString());
        }
        answers.take();
        if (client != null) {
            client.close();
        }
        System.exit(0);
    }

    private static Slice work(CuratorFramework client, Task task, BlockingQueue<String> answers)
            throws Exception {
        Slice slice = new Slice();
        rawWrites(client, task, slice);
        warmUp(client, task);
        for (int who = 0; who < task.tasks(); who++) {
            make(client, task.directory(who));
        }
        slice.rssBefore = Slice.memory("VmRSS");

        say("Mark", "ready");
        long start = Long.parseLong(answers.take());
        long begin = start + task.warmup();
        var window = new Contender.Window(begin, begin + task.run(), Long.MAX_VALUE);
        long deadline = window.end() + PATIENCE;
        List<Contender> contenders = new ArrayList<>();
        Turns turns = new Turns();
        for (int who = 0; who < task.tasks(); who++) {
            turns = task.byTurns() ? turns : new Turns();
            var primitive = Primitive.of(task.primitive(), client, task.directory(who));
            contenders.add(
                    new Contender(primitive, who, turns, window, deadline, task.stamps()));
        }
        TimeUnit.NANOSECONDS.sleep(start - System.nanoTime());
        long busy = Slice.busy();
        run(contenders);
        slice.cpu = Slice.busy() - busy;
        slice.time = task.run();
        contenders.forEach(contender -> slice.absorb(contender.seen));
        slice.rss = Slice.memory("VmRSS");
        slice.rssPeak = Slice.memory("VmHWM");
        return slice;
    }

    private static void run(List<Contender> contenders) throws InterruptedException {
        contenders.forEach(Thread::start);
        for (Contender contender : contenders) {
            contender.join();
        }
    }

    /**
     * Acquires and releases a private lock by two threads in turn, so that the code of waiters runs,
     * too. Java starts with an interpreter, which takes several times as long for a pair, and
     * compiles code that has run often. Without this a slice of a second would measure that phase,
     * and not the Curator of a service that runs for days.
     */
    private static void warmUp(CuratorFramework client, Task task) throws Exception {
        String directory = task.namespace() + "/warm-" + ProcessHandle.current().pid();
        make(client, directory);
        long now = System.nanoTime();
        // Single writes are timed only if the server is far away.
        long time = task.rawWrites() > 0 ? WARM_TIME_FAR : WARM_TIME;
        var window = new Contender.Window(now, now + time, WARM_PAIRS / 2);
        long deadline = window.end() + PATIENCE;
        List<Contender> contenders = new ArrayList<>();
        for (int who = 0; who < 2; who++) {
            var primitive = Primitive.of(task.primitive(), client, directory);
            contenders.add(
                    new Contender(primitive, who, new Turns(), window, deadline, false));
        }
        run(contenders);
        for (Contender contender : contenders) {
            if (contender.seen.error != null) {
                throw new IOException(contender.seen.error);
            }
        }
    }

    /** Creates a directory that other processes may create at the same time. */
    private static void make(CuratorFramework client, String directory) throws Exception {
        try {
            client.create().creatingParentsIfNeeded().forPath(directory, new byte[0]);
        } catch (KeeperException.NodeExistsException made) {
            // It exists, as intended.
        }
    }

    /** Times single writes like the floor's. */
    private static void rawWrites(CuratorFramework client, Task task, Slice slice)
            throws Exception {
        String prefix = task.namespace() + "/raw-" + ProcessHandle.current().pid();
        if (task.rawWrites() == 0) {
            return;
        }
        make(client, prefix);
        for (int index = 0; index < task.rawWrites() + 2; index++) {
            long start = System.nanoTime();
            String made =
                    client.create()
                            .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                            .forPath(prefix + "/lock-", new byte[0]);
            // The first ones establish connections.
            if (index >= 2) {
                slice.rawWrite.add(System.nanoTime() - start);
            }
            client.delete().forPath(made);
        }
    }
}
