// The loads of benchmarks/peers/message_rows.py, the same for RocketMQ's clients of both protocols;
// RemotingClient.java and GrpcClient.java say how each of them sends and receives.
//
// A program takes one command a line on standard input and answers each with one line of JSON, so
// that one client, warmed up, serves all of a question:
//
//   send TOPIC CLIENTS IN_FLIGHT SECONDS BYTES     each client keeps so many on their way
//   fill TOPIC FIRST COUNT BYTES                   messages with these numbers
//   pop TOPIC GROUP FIRST COUNT THREADS            receive and acknowledge all of them
//   latency TOPIC GROUP PER_SECOND SECONDS THREADS from when a message was due to its receipt
//   transactions TOPIC CLIENTS SECONDS             each client commits one after the other
//
// A send that fails, an acknowledgement that is refused or a message that does not come ends a
// command with an error. Times are in microseconds.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

final class Load {
    static final int BATCH = 32;
    static final int BYTES_MIN = 16;
    static final int FILLING = 512;
    static final int TIMES_MAX = 4_000_000;
    private static volatile long silentNanos = TimeUnit.SECONDS.toNanos(30);

    /** One client that sends. */
    interface Sender {
        void send(byte[] body) throws Exception;

        CompletableFuture<?> sendLater(byte[] body) throws Exception;
    }

    /** One message that came, and what it is acknowledged with. */
    record Got(byte[] body, Object handle) {}

    /** One client that receives for a group; an empty answer after a while is fine. */
    interface Receiver {
        List<Got> receive() throws Exception;

        void acknowledge(List<Got> messages) throws Exception;
    }

    /** What differs between the protocols. */
    interface Protocol {
        Sender sender(String topic, int number) throws Exception;

        Sender transactions(String topic, int number) throws Exception;

        Receiver receiver(String topic, String group) throws Exception;

        String more(String[] words) throws Exception;
    }

    /** How long things took; it holds a bounded number and counts all. */
    static final class Times {
        private long[] took = new long[1024];
        private int count;

        synchronized void add(long nanos) {
            if (count == TIMES_MAX) {
                throw new IllegalStateException("more than " + TIMES_MAX + " times");
            }
            if (count == took.length) took = Arrays.copyOf(took, count * 2);
            took[count++] = nanos;
        }

        synchronized int count() {
            return count;
        }

        synchronized String told() {
            if (count == 0) throw new IllegalStateException("nothing was measured");
            long[] sorted = Arrays.copyOf(took, count);
            Arrays.sort(sorted);
            return pairs(
                "p50", sorted[count / 2] / 1e3, "p99", sorted[(int) (count * 99L / 100)] / 1e3,
                "p999", sorted[(int) (count * 999L / 1000)] / 1e3, "max", sorted[count - 1] / 1e3);
        }
    }

    /** Which of a range of numbers came, and how many came again. */
    static final class Seen {
        private final long first;
        private final int wanted;
        private final BitSet came = new BitSet();
        private int distinct;
        private int again;
        private int strange;
        private long lastNanos = System.nanoTime();

        Seen(long first, int wanted) {
            this.first = first;
            this.wanted = wanted;
        }

        /** Says whether it came for the first time. */
        synchronized boolean add(long number) {
            long at = number - first;
            if (at < 0 || at >= wanted) {
                strange++;
                return false;
            }
            if (came.get((int) at)) {
                again++;
                return false;
            }
            came.set((int) at);
            distinct++;
            lastNanos = System.nanoTime();
            return true;
        }

        synchronized boolean isWhole() {
            return distinct == wanted;
        }

        synchronized boolean isSilent() {
            return System.nanoTime() - lastNanos > silentNanos;
        }

        synchronized long lastNanos() {
            return lastNanos;
        }

        synchronized int again() {
            return again;
        }

        synchronized void check() {
            if (strange > 0) throw new IllegalStateException(strange + " messages nobody sent");
            if (distinct < wanted) {
                throw new IllegalStateException(distinct + " of " + wanted + " messages came");
            }
        }
    }

    /** Threads of one load: the first failure of any is that of the load. */
    static final class Threads {
        private final List<Thread> threads = new ArrayList<>();
        private final AtomicReference<Throwable> failure = new AtomicReference<>();

        interface Work {
            void run() throws Exception;
        }

        void start(Work work) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (Throwable failed) {
                    fail(failed);
                }
            });
            thread.setDaemon(true);
            threads.add(thread);
            thread.start();
        }

        void fail(Throwable failed) {
            failure.compareAndSet(null, failed);
        }

        boolean isFailed() {
            return failure.get() != null;
        }

        void join() throws Exception {
            for (Thread thread : threads) thread.join();
            check();
        }

        void check() {
            Throwable failed = failure.get();
            if (failed != null) throw new IllegalStateException(failed.toString(), failed);
        }
    }

    final Protocol protocol;
    final AtomicLong numbers = new AtomicLong();

    Load(Protocol protocol) {
        this.protocol = protocol;
    }

    /** What did not come is taken for lost after so long without any other. */
    static void silentAfter(long millis) {
        silentNanos = TimeUnit.MILLISECONDS.toNanos(millis);
    }

    static byte[] body(long number, long dueNanos, int bytes) {
        byte[] made = new byte[Math.max(bytes, BYTES_MIN)];
        Arrays.fill(made, (byte) 'p');
        ByteBuffer.wrap(made).putLong(number).putLong(dueNanos);
        return made;
    }

    static long numberOf(byte[] body) {
        return ByteBuffer.wrap(body).getLong();
    }

    static long dueOf(byte[] body) {
        return ByteBuffer.wrap(body).getLong(8);
    }

    String send(String topic, int clients, int inFlight, int seconds, int bytes) throws Exception {
        List<Sender> senders = new ArrayList<>();
        for (int n = 0; n < clients; n++) senders.add(protocol.sender(topic, n));
        return closed(senders, inFlight, seconds, bytes);
    }

    String transactions(String topic, int clients, int seconds) throws Exception {
        List<Sender> senders = new ArrayList<>();
        for (int n = 0; n < clients; n++) senders.add(protocol.transactions(topic, n));
        return closed(senders, 1, seconds, 1024);
    }

    /** Each sender sends the next one as soon as an earlier one is answered. */
    private String closed(List<Sender> senders, int inFlight, int seconds, int bytes)
        throws Exception {
        Times times = new Times();
        Threads threads = new Threads();
        long begun = System.nanoTime(), until = begun + TimeUnit.SECONDS.toNanos(seconds);
        for (Sender sender : senders) {
            if (inFlight == 1) {
                threads.start(() -> {
                    while (System.nanoTime() < until && !threads.isFailed()) {
                        long at = System.nanoTime();
                        sender.send(body(numbers.getAndIncrement(), at, bytes));
                        times.add(System.nanoTime() - at);
                    }
                });
            } else {
                threads.start(() -> pipelined(sender, inFlight, until, bytes, times, threads));
            }
        }
        threads.join();
        double took = (System.nanoTime() - begun) / 1e9;
        return "{" + pairs("messages", times.count(), "seconds", took) + ", " + times.told() + "}";
    }

    private void pipelined(
        Sender sender, int inFlight, long until, int bytes, Times times, Threads threads)
        throws Exception {
        Semaphore permits = new Semaphore(inFlight);
        while (System.nanoTime() < until && !threads.isFailed()) {
            permits.acquire();
            long at = System.nanoTime();
            byte[] body = body(numbers.getAndIncrement(), at, bytes);
            later(sender, body, threads, permits, () -> times.add(System.nanoTime() - at));
        }
        permits.acquire(inFlight);
    }

    /** Sends without waiting; with the answer the permit comes back. */
    static void later(
        Sender sender, byte[] body, Threads threads, Semaphore permits, Runnable answered)
        throws Exception {
        sender.sendLater(body).whenComplete((one, failed) -> {
            try {
                if (failed == null) answered.run();
                else threads.fail(failed);
            } finally {
                permits.release();
            }
        });
    }

    String fill(String topic, long first, int count, int bytes) throws Exception {
        Sender sender = protocol.sender(topic, 0);
        Semaphore permits = new Semaphore(FILLING);
        Threads threads = new Threads();
        for (int n = 0; n < count && !threads.isFailed(); n++) {
            permits.acquire();
            later(sender, body(first + n, 0, bytes), threads, permits, () -> {});
        }
        permits.acquire(FILLING);
        threads.check();
        return "{" + pairs("messages", count) + "}";
    }

    String pop(String topic, String group, long first, int count, int threadCount) throws Exception {
        Receiver receiver = protocol.receiver(topic, group);
        Seen seen = new Seen(first, count);
        Threads threads = new Threads();
        long begun = System.nanoTime();
        for (int n = 0; n < threadCount; n++) {
            threads.start(() -> {
                while (!seen.isWhole() && !seen.isSilent() && !threads.isFailed()) {
                    List<Got> messages = receiver.receive();
                    if (messages.isEmpty()) continue;
                    receiver.acknowledge(messages);
                    for (Got one : messages) seen.add(numberOf(one.body()));
                }
            });
        }
        threads.join();
        seen.check();
        return "{" + pairs("messages", count, "again", seen.again(),
            "seconds", (seen.lastNanos() - begun) / 1e9) + "}";
    }

    String latency(String topic, String group, int perSecond, int seconds, int threadCount)
        throws Exception {
        int count = perSecond * seconds;
        long first = numbers.getAndAdd(count);
        Receiver receiver = protocol.receiver(topic, group);
        Seen seen = new Seen(first, count);
        Times times = new Times();
        Threads threads = new Threads();
        for (int n = 0; n < threadCount; n++) {
            threads.start(() -> {
                while (!seen.isWhole() && !seen.isSilent() && !threads.isFailed()) {
                    List<Got> messages = receiver.receive();
                    if (messages.isEmpty()) continue;
                    long now = System.nanoTime();
                    for (Got one : messages) {
                        if (seen.add(numberOf(one.body()))) times.add(now - dueOf(one.body()));
                    }
                    receiver.acknowledge(messages);
                }
            });
        }
        paced(protocol.sender(topic, 0), first, count, perSecond, threads);
        threads.join();
        seen.check();
        return "{" + pairs("messages", count, "again", seen.again()) + ", " + times.told() + "}";
    }

    /** Sends on an open schedule: a message is due whether or not earlier ones were answered. */
    private static void paced(Sender sender, long first, int count, int perSecond, Threads threads)
        throws Exception {
        Semaphore permits = new Semaphore(count);
        long begun = System.nanoTime();
        for (int n = 0; n < count && !threads.isFailed(); n++) {
            long due = begun + (long) (n * 1e9 / perSecond);
            while (System.nanoTime() < due) {
                if (due - System.nanoTime() > 2_000_000) Thread.sleep(1);
                else Thread.yield();
            }
            permits.acquire();
            later(sender, body(first + n, due, 1024), threads, permits, () -> {});
        }
        permits.acquire(count);
    }

    String answer(String[] a) throws Exception {
        return switch (a[0]) {
            case "send" -> send(a[1], number(a[2]), number(a[3]), number(a[4]), number(a[5]));
            case "fill" -> fill(a[1], number(a[2]), number(a[3]), number(a[4]));
            case "pop" -> pop(a[1], a[2], number(a[3]), number(a[4]), number(a[5]));
            case "latency" -> latency(a[1], a[2], number(a[3]), number(a[4]), number(a[5]));
            case "transactions" -> transactions(a[1], number(a[2]), number(a[3]));
            default -> protocol.more(a);
        };
    }

    static int number(String word) {
        return Integer.parseInt(word);
    }

    /** Names and values as the inside of a JSON object. */
    static String pairs(Object... pairs) {
        StringBuilder made = new StringBuilder();
        for (int n = 0; n < pairs.length; n += 2) {
            Object value = pairs[n + 1];
            String text = value instanceof Double
                ? String.format(Locale.ROOT, "%f", value)
                : value instanceof Number ? value.toString() : quoted(String.valueOf(value));
            made.append(n > 0 ? ", " : "").append('"').append(pairs[n]).append("\": ").append(text);
        }
        return made.toString();
    }

    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one == '"' || one == '\\') made.append('\\').append(one);
            else made.append(one < ' ' ? ' ' : one);
        }
        return made.append('"').toString();
    }

    static void serve(Protocol protocol) throws Exception {
        Load load = new Load(protocol);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = load.answer(line.trim().split(" +"));
            } catch (Throwable failed) {
                answer = "{" + pairs("error", String.valueOf(failed)) + "}";
            }
            System.out.println("@" + answer); // the client's own messages have no @
            System.out.flush();
        }
        System.exit(0);
    }
}
