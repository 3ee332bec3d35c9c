import com.fasterxml.jackson.annotation.JsonProperty;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The result for the bench: see benches/src/slice.rs. Times are in nanoseconds, memory in KiB.
 */
final class Slice {
    /** One holder's turn. */
    record Stamp(long granted, long released, int task) {}

    public long pairs;
    public long time;
    @JsonProperty("all_pairs") public long allPairs;
    public long cpu;
    public final List<Long> lock = new ArrayList<>();
    public final List<Long> unlock = new ArrayList<>();
    public long longest;
    public final List<Long> gap = new ArrayList<>();
    @JsonProperty("raw_write") public final List<Long> rawWrite = new ArrayList<>();
    public final List<Stamp> stamps = new ArrayList<>();
    public long rss;
    @JsonProperty("rss_peak") public long rssPeak;
    @JsonProperty("rss_before") public long rssBefore;
    public long take;
    public long release;
    public long errors;
    public String error;

    /** Adds the results of another task. */
    void absorb(Slice other) {
        pairs += other.pairs;
        allPairs += other.allPairs;
        lock.addAll(other.lock);
        unlock.addAll(other.unlock);
        longest = Math.max(longest, other.longest);
        gap.addAll(other.gap);
        stamps.addAll(other.stamps);
        errors += other.errors;
        error = error == null ? other.error : error;
    }

    void failed(Exception failure) {
        errors++;
        error = error == null ? failure.toString() : error;
    }

    /** Returns the processor time of this process, in ticks of 10 ms. */
    static long busy() {
        return ProcessHandle.current().info().totalCpuDuration().orElseThrow().toNanos();
    }

    /** Returns a field of the kernel's status of this process, such as VmRSS. */
    static long memory(String field) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith(field + ":")) {
                return Long.parseLong(line.replaceAll("\\D", ""));
            }
        }
        throw new IOException("no " + field);
    }
}
