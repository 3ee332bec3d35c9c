import java.io.Closeable;

/** A task that locks and unlocks in a loop, timed as in benches/src/pairs.rs. */
final class Contender extends Thread {
    /** When turns count; the work ends with the window, or after a number of turns. */
    record Window(long begin, long end, long most) {
        boolean has(long instant) {
            return begin <= instant && instant < end;
        }
    }

    /** The pause of a task after a failure. */
    private static final long PAUSE_MS = 50;

    final Slice seen = new Slice();
    private final int who;
    private final Primitive primitive;
    /** Shared by the contenders of one name. */
    private final Turns turns;
    private final Window window;
    /** No contender waits longer than this. */
    private final long deadline;
    private final boolean stamps;

    Contender(
            Primitive primitive,
            int who,
            Turns turns,
            Window window,
            long deadline,
            boolean stamps) {
        this.primitive = primitive;
        this.who = who;
        this.turns = turns;
        this.window = window;
        this.deadline = deadline;
        this.stamps = stamps;
    }

    @Override
    public void run() {
        while (System.nanoTime() < window.end() && seen.allPairs < window.most()) {
            try {
                pair();
            } catch (Exception failure) {
                seen.failed(failure);
                try {
                    sleep(PAUSE_MS);
                } catch (InterruptedException stopped) {
                    return;
                }
            }
        }
    }

    private void pair() throws Exception {
        long called = System.nanoTime();
        Closeable held = primitive.take(deadline - called);
        if (held == null) {
            throw new Exception("was not served in time");
        }
        Turns.Granted granted;
        try {
            granted = turns.granted(who);
        } catch (IllegalStateException failure) {
            held.close();
            throw failure;
        }
        long released = turns.release(who);
        held.close();
        long unlocked = System.nanoTime();
        seen.allPairs++;
        seen.longest = Math.max(seen.longest, granted.at() - called);
        if (window.has(granted.at())) {
            seen.lock.add(granted.at() - called);
            if (granted.gap() >= 0) {
                seen.gap.add(granted.gap());
            }
            if (stamps) {
                seen.stamps.add(new Slice.Stamp(granted.at(), released, who));
            }
        }
        if (window.has(unlocked)) {
            seen.pairs++;
            seen.unlock.add(unlocked - released);
        }
    }
}
