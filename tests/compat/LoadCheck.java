// A broker in memory under the loads of benchmarks/native/Load.java, for test_message_loads.py. The
// word says what it does wrong: loses, refuses, repeats, invents, forgets or nothing.

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

public final class LoadCheck implements Load.Protocol {
    private static final int EVERY = 10;
    private static final long SERVICE_NANOS = 50_000;

    private final String wrong;
    private final ConcurrentLinkedQueue<byte[]> held = new ConcurrentLinkedQueue<>();
    private final AtomicInteger sends = new AtomicInteger();
    private final AtomicInteger acknowledgements = new AtomicInteger();

    private LoadCheck(String wrong) {
        this.wrong = wrong;
    }

    private void take(byte[] body) {
        LockSupport.parkNanos(SERVICE_NANOS); // or more would be held than there is memory for
        boolean isWrong = sends.incrementAndGet() % EVERY == 0;
        if (isWrong && wrong.equals("refuses")) throw new IllegalStateException("refused");
        if (isWrong && wrong.equals("loses")) return;
        held.add(body);
        if (isWrong && wrong.equals("repeats")) held.add(body);
        if (isWrong && wrong.equals("invents")) held.add(Load.body(-7, 0, 64));
    }

    private Load.Sender sender() {
        return new Load.Sender() {
            @Override
            public void send(byte[] body) {
                take(body);
            }

            @Override
            public CompletableFuture<?> sendLater(byte[] body) {
                return CompletableFuture.runAsync(() -> take(body));
            }
        };
    }

    @Override
    public Load.Sender sender(String topic, int number) {
        return sender();
    }

    @Override
    public Load.Sender transactions(String topic, int number) {
        return sender();
    }

    @Override
    public Load.Receiver receiver(String topic, String group) {
        return new Load.Receiver() {
            @Override
            public List<Load.Got> receive() {
                List<Load.Got> found = new ArrayList<>();
                byte[] body = held.poll();
                while (body != null) {
                    found.add(new Load.Got(body, null));
                    body = found.size() < Load.BATCH ? held.poll() : null;
                }
                return found;
            }

            @Override
            public void acknowledge(List<Load.Got> messages) {
                if (wrong.equals("forgets") && acknowledgements.incrementAndGet() == 2) {
                    throw new IllegalStateException("forgotten");
                }
            }
        };
    }

    @Override
    public String more(String[] words) {
        return switch (words[0]) {
            case "held" -> "{" + Load.pairs("messages", held.size()) + "}";
            case "times" -> {
                Load.Times times = new Load.Times();
                for (int n = 1; n <= Load.number(words[1]); n++) times.add(n * 1_000L);
                yield "{" + times.told() + "}";
            }
            default -> throw new IllegalArgumentException("no such \"command\": " + words[0]);
        };
    }

    public static void main(String[] words) throws Exception {
        Load.silentAfter(Long.parseLong(words[1]));
        Load.serve(new LoadCheck(words[0]));
    }
}
