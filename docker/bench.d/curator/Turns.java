/** The holders over time, as in benches/src/turns.rs. */
final class Turns {
    /** When a lock call returned and, unless negative, how long after another's last unlock. */
    record Granted(long at, long gap) {}

    private boolean held;
    private long released;
    private int last = -1;

    synchronized Granted granted(int who) {
        long now = System.nanoTime();
        if (held) {
            throw new IllegalStateException("two held the lock at once");
        }
        held = true;
        return new Granted(now, last >= 0 && last != who ? now - released : -1);
    }

    /** Records the start of an unlock. */
    synchronized long release(int who) {
        held = false;
        released = System.nanoTime();
        last = who;
        return released;
    }
}
