import java.io.Closeable;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** A primitive that a contender acquires, and releases by closing the result. */
interface Primitive {
    /** Returns null if it could not be acquired within the given nanoseconds. */
    Closeable take(long time) throws Exception;

    static Primitive of(String name, CuratorFramework client, String directory) {
        return switch (name) {
            case "Mutex" -> mutex(new InterProcessMutex(client, directory));
            case "Write" -> mutex(new InterProcessReadWriteLock(client, directory).writeLock());
            case "Semaphore" -> {
                var semaphore = new InterProcessSemaphoreV2(client, directory, 4);
                yield time -> {
                    Lease lease = semaphore.acquire(time, TimeUnit.NANOSECONDS);
                    return lease == null ? null : lease::close;
                };
            }
            case "Election" ->
                    time -> {
                        // A closed latch cannot be started again.
                        LeaderLatch latch = new LeaderLatch(client, directory);
                        latch.start();
                        if (latch.await(time, TimeUnit.NANOSECONDS)) {
                            return latch;
                        }
                        latch.close();
                        return null;
                    };
            default -> throw new IllegalArgumentException("there is no " + name);
        };
    }

    private static Primitive mutex(InterProcessMutex mutex) {
        return time -> {
            if (!mutex.acquire(time, TimeUnit.NANOSECONDS)) {
                return null;
            }
            return () -> {
                try {
                    mutex.release();
                } catch (Exception failure) {
                    throw new java.io.IOException(failure);
                }
            };
        };
    }
}
