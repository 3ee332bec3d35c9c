import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;

/** The bench's order to a process: see benches/src/task.rs. */
record Task(
        String servers,
        String namespace,
        int tasks,
        boolean oneName,
        long warmup,
        long run,
        int rawWrites,
        boolean stamps,
        String primitive) {
    private static final long MS = 1_000_000;

    static Task parse(ObjectMapper json, String[] args) throws IOException {
        if (args.length != 2 || !args[0].equals("--role")) {
            throw new IOException("the arguments are --role and a role");
        }
        JsonNode task = json.readTree(args[1]).path("Subject");
        JsonNode pairs = task.path("work").path("Pairs");
        if (pairs.isMissingNode()) {
            throw new IOException("only pairs can be measured of this one");
        }
        StringBuilder servers = new StringBuilder();
        task.path("servers").forEach(server -> servers.append(',').append(server.asText()));
        return new Task(
                servers.substring(1),
                task.path("namespace").asText(),
                pairs.path("tasks").asInt(),
                pairs.path("names").asText().equals("One"),
                pairs.path("warmup_ms").asLong() * MS,
                pairs.path("run_ms").asLong() * MS,
                pairs.path("raw_writes").asInt(),
                pairs.path("stamps").asBoolean(),
                pairs.path("primitive").asText());
    }

    /** Returns true if all contenders share one exclusive primitive. */
    boolean byTurns() {
        return oneName && !primitive.equals("Semaphore");
    }

    /** Returns the directory of a contender's lock. */
    String directory(int who) {
        return namespace + "/lock" + (oneName || who == 0 ? "" : "-" + who);
    }
}
