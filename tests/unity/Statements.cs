// Statements in TAP ("ok 1 - ...").

using System;

public static class Statements
{
    private static int _count, _failed;

    public static void Holds(bool condition, string statement, object why = null)
    {
        Console.WriteLine((condition ? "ok " : "not ok ") + ++_count + " - " + statement);
        if (!condition)
        {
            Console.WriteLine("# " + (why ?? "").ToString().Replace("\n", "\n# "));
            _failed++;
        }
    }

    public static int End()
    {
        Console.WriteLine("1.." + _count);
        return _failed == 0 ? 0 : 1;
    }
}
