// RocketMQ's stock mqadmin, for tests/compat/test_mqadmin.py: runs each line of its input as one
// command, and prints a line after what each has printed.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

public class MqAdmin {
    public static void main(String[] words) throws Exception {
        System.setErr(System.out);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            MQAdminStartup.main0(line.split(" "), null);
            System.out.println("\n@end");
        }
        System.exit(0);
    }
}
